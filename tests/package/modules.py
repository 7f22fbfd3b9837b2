# SPDX-License-Identifier: Apache-2.0
"""What an installed package consists of: all that the source tree has of it, and modules that say which library they miss."""

import importlib
import importlib.metadata
import importlib.util
import json
import pathlib

import cohort
import cohort.graph

SOURCES = pathlib.Path(__file__).parents[2] / "bindings" / "python"
LEFT_OUT = {"hcomm.py"}
# By the library that each is for, which says how it is installed.
NEEDS = {"cohort.torch": "torch", "cohort.torchft": "torchft", "cohort.ray": "ray", "cohort.jax": "jax", "cohort.lightgbm": "lightgbm",
         "ge_graph_optimizer": "torch"}


def check_files():
    place = pathlib.Path(cohort.__file__).parents[1]
    wanted = {file.relative_to(SOURCES) for pattern in ("*.py", "*.pyi", "py.typed") for file in SOURCES.rglob(pattern)}
    missing = [str(file) for file in wanted if str(file) not in LEFT_OUT and not (place / file).exists()]
    assert not missing, f"the package is without {missing}"


def check_modules():
    for name, library in NEEDS.items():
        if importlib.util.find_spec(library) is not None:
            continue
        try:
            importlib.import_module(name)
        except ImportError as error:
            assert "cohort" in str(error) and "pip install" in str(error) and library in str(error), (name, error)
        else:
            raise AssertionError(f"{name} needs no {library}")


def check_graphs():
    """Without torch, too."""
    tensors = [{"name": "loss", "role": "loss"}, {"name": "w", "shape": [8], "role": "parameter"},
               {"name": "w.grad", "shape": [8], "role": "gradient", "gradient_of": "w"}]
    nodes = [{"name": "forward", "op": "forward", "inputs": ["w"], "outputs": ["loss"], "duration_us": 5.0},
             {"name": "backward", "op": "backward", "phase": "backward", "inputs": ["loss"], "outputs": ["w.grad"], "duration_us": 5.0},
             {"name": "update", "op": "update", "phase": "update", "inputs": ["w", "w.grad"], "attributes": {"updates": "w"}}]
    graph = cohort.graph.parse_graph(json.dumps({"name": "step", "tensors": tensors, "nodes": nodes}), "step")
    made = cohort.graph.insert_all_reduce(graph, "synchronous", cohort.graph.LinearCost(1.0, 0.01))
    assert "reduce_bucket_0" in made.graph.to_text(), made.graph.to_text()


def check_metadata():
    metadata = importlib.metadata.metadata("cohort")
    assert metadata["Version"] == cohort.__version__
    entries = {(entry.group, entry.name): entry.value for entry in importlib.metadata.distribution("cohort").entry_points}
    assert entries == {("console_scripts", "cohort"): "cohort.__main__:main", ("torch.backends", "cohort"): "cohort_autoload:autoload",
                       ("torch_dynamo_backends", "cohort"): "cohort.graph.compile:cohort"}, entries
    extras = metadata.get_all("Provides-Extra")
    assert {"torch", "ray", "lightgbm"} <= set(extras), extras
    for extra in extras:
        assert any(f"extra == \"{extra}\"" in wanted or f"extra == '{extra}'" in wanted for wanted in importlib.metadata.requires("cohort"))


check_files()
check_modules()
check_graphs()
check_metadata()
