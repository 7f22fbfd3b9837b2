# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers on a small BERT with random weights and random data."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from victim import STEPS, may_die, tell


class Steps(TrainerCallback):
    def on_step_begin(self, args, state, control, **more):
        may_die(state.global_step)

    def on_log(self, args, state, control, logs=None, **more):
        if "loss" in logs:
            tell(state.global_step - 1, logs["loss"])


torch.manual_seed(0)
model = BertForSequenceClassification(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                 intermediate_size=64, max_position_embeddings=16))
data = [{"input_ids": torch.randint(0, 64, (8,)), "labels": torch.tensor(i % 2)} for i in range(8 * STEPS)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(output_dir=folder, use_cpu=True, max_steps=STEPS, per_device_train_batch_size=4, report_to=[],
                                  logging_steps=1, save_strategy="no", disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Steps()]).train()
torch.distributed.destroy_process_group()
