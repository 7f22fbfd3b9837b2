// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/coalescing.h>

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

namespace cohort::torch_face {
namespace {

class WorkOfAll final : public c10d::Work {
 public:
  explicit WorkOfAll(std::vector<Coalescing::Work> works)
      : Work(-1, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override {
    return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& work : works_) work->wait(timeout);
    return true;
  }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const auto& work : works_) {
      const std::vector<at::Tensor> one = work->result();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const auto& work : works_) futures.push_back(work->getFuture());
    return c10::collectAll(futures);
  }

 private:
  const std::vector<Coalescing::Work> works_;
};

}  // namespace

void Coalescing::start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!works_, "cohort: coalescing was started within coalescing: end it first");
  works_.emplace();
}

void Coalescing::add(const Work& work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (works_) works_->push_back(work);
}

Coalescing::Work Coalescing::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(works_, "cohort: coalescing was ended and not started");
  std::vector<Work> works = std::move(*works_);
  works_.reset();
  return c10::make_intrusive<WorkOfAll>(std::move(works));
}

}  // namespace cohort::torch_face
