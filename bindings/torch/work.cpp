// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/work.h>

#include <cohort/bindings/python/interpreter.h>
#include <cohort/bindings/torch/mapped_allocator.h>
#include <cohort/bindings/torch/tellers.h>

#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace cohort::torch_face {
namespace {

using c10::ivalue::Future;
using std::chrono::steady_clock;

c10::intrusive_ptr<Future> make_future() {
  return c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
}

void complete(Future& future, const std::vector<at::Tensor>& outputs, const std::exception_ptr& failure) {
  if (failure)
    future.setError(failure);
  else
    future.markCompleted(c10::IValue(outputs));
}

std::vector<c10::Storage> storages_of(const std::vector<at::Tensor>& inputs,
                                      const std::vector<at::Tensor>& outputs) {
  std::vector<c10::Storage> memory;
  memory.reserve(inputs.size() + outputs.size());
  for (const auto* const tensors : {&inputs, &outputs})
    for (const at::Tensor& tensor : *tensors)
      if (tensor.has_storage()) memory.push_back(tensor.storage());
  return memory;
}

steady_clock::duration duration_of(double seconds) {
  constexpr double kMostSeconds = 1e9;  // of a moment in nanoseconds
  return std::chrono::duration_cast<steady_clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kMostSeconds)));
}

/// Threads of Python's that wait for works. Torch takes the lock for them again where they have come back,
/// amid frames of C++: not once the interpreter has ended.
class Waiting {
 public:
  Waiting() noexcept {
    ++count;
    ++of_thread;
  }
  ~Waiting() {
    --count;
    --of_thread;
    const bool is_python_s = PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() == 0;
    const unsigned long kept_for = kept_for_thread;
    const bool is_late = kept_for != 0 && kept_for != PyThread_get_thread_ident();
    if (is_late && is_python_s && kept_in_process == ::getpid()) python::stay_behind();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// In a child of fork, whose one thread may be in waits: a signal's handler forked.
  static void begin_anew() noexcept { count = of_thread; }

  /// From now on for the caller's thread alone, in this process. Looks again and again, once in a process's
  /// life: to be woken would cost every wait to see who wants to know. That a thread has taken the lock after
  /// it has come back nothing tells: it takes microseconds where there is a core for it.
  static void keep() noexcept {
    constexpr std::chrono::milliseconds kLook(1);
    constexpr std::chrono::milliseconds kToTakeTheLock(10);
    constexpr std::chrono::seconds kPatience(1);
    const auto end = steady_clock::now() + kPatience;
    while (count != 0 && steady_clock::now() < end) std::this_thread::sleep_for(kLook);
    std::this_thread::sleep_for(kToTakeTheLock);
    kept_in_process = ::getpid();
    kept_for_thread = PyThread_get_thread_ident();
  }

 private:
  static inline std::atomic<int> count{0};
  static inline thread_local int of_thread = 0;
  static inline std::atomic<unsigned long> kept_for_thread{0};
  static inline std::atomic<pid_t> kept_in_process{0};
};

/// The engine of backward passes knows Python's exceptions by a class of its own.
[[noreturn]] void throw_as_torch_does(pybind11::error_already_set& raised) {
  const pybind11::gil_scoped_acquire locked;
  raised.restore();
  python_error error;
  error.persist();
  throw error;
}

}  // namespace

void expect_forks() {
  (void)Tellers::one();  // made here, so that no thread is at it when another one forks
  ::pthread_atfork(nullptr, nullptr, [] {
    Waiting::begin_anew();
    Tellers::begin_anew();
  });
}

void keep_threads_that_wait() noexcept { Waiting::keep(); }

void tell_all_futures() noexcept { Tellers::one().fall_silent(); }

std::exception_ptr settle(const Outcome& outcome, const std::function<void()>& finish, bool is_inference) {
  try {
    // As other backends say it: programs look for these words.
    if (outcome.is_late) throw std::runtime_error("cohort: Timed out waiting: " + outcome.failure);
    if (!outcome.failure.empty()) throw std::runtime_error(outcome.failure);
    if (finish) {
      const OrdinaryTensors made_meanwhile;
      const c10::InferenceMode as_when_called(is_inference);
      finish();
    }
  } catch (python_error& error) {  // of a tensor of the program's own class: it lies with this thread still
    error.persist();
    return std::make_exception_ptr(
        std::runtime_error(std::string("cohort: the results were not copied: ") + error.what()));
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void wait_for_call(const std::function<Outcome(bindings::Interrupt*)>& call,
                   const std::function<void()>& finish) {
  const Waiting waiting;
  python::Signals signals;  // which the main thread handles
  const Outcome outcome = call(python::is_main_thread() ? &signals : nullptr);
  signals.rethrow();
  if (const std::exception_ptr failure = settle(outcome, finish, c10::InferenceMode::is_enabled()))
    std::rethrow_exception(failure);
}

CohortWork::CohortWork(const Facts& facts, std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs,
                       std::function<void()> finish)
    : Work(facts.rank, facts.type, facts.title, inputs),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      memory_(storages_of(inputs_, outputs_)),
      timeout_s_(facts.timeout_s),
      sequence_(facts.sequence),
      depth_(Tellers::depth()),
      is_inference_(c10::InferenceMode::is_enabled()),
      recorded_(facts.recorded),
      finish_(std::move(finish)) {
  if (facts.is_timed) began_ = steady_clock::now();
}

void CohortWork::end(const Outcome& outcome) {
  from_ = outcome.from;
  const std::exception_ptr failure = settle(outcome, finish_, is_inference_);
  if (began_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    took_ = steady_clock::now() - *began_;
  }
  finish_ = nullptr;
  record_end(failure == nullptr);
  finish(failure);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!future_) return;
  Tellers::one().tell(depth_,
                      [self = c10::intrusive_ptr<CohortWork>::reclaim_copy(this)] { self->tell_future(); });
}

void CohortWork::record_end(bool is_well) {
  if (!recorded_) return;
  const bool is_from_anybody = retrieveOpType() == c10d::OpType::RECVANYSOURCE;
  recorded_->end(is_well, is_from_anybody ? static_cast<int>(from_) : -1);
}

/// Where the program hears of it: a dump takes the interpreter's lock, which whoever drives may not.
void CohortWork::dump_failure() {
  if (recorded_ && exception_) recorded_->dump_failure();
}

/// By the first who comes to it: a teller, or whoever waits for the work.
void CohortWork::tell_future() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!future_ || !completed_ || std::exchange(is_future_told_, true)) return;
  }
  dump_failure();
  complete(*future_, outputs_, exception_);
}

bool CohortWork::isCompleted() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (completed_) return true;
  }
  return pending_->is_over() && Work::isCompleted();
}

/// Drives the call, which the session ends at its deadline. What comes after it, whoever drove it: copies its
/// results; that may take as long again. Not above zero: the call's own time. Throws what a signal's handler
/// raised meanwhile, and where it is not over in time.
void CohortWork::wait_until_over(double seconds) {
  constexpr std::chrono::milliseconds kQuestionInterval(50);
  python::Signals signals;  // which the main thread handles
  python::Signals* const asked = python::is_main_thread() ? &signals : nullptr;
  const bool is_call_over = pending_->wait(seconds, asked);
  signals.rethrow();
  if (seconds <= 0) seconds = timeout_s_;
  const auto until = steady_clock::now() + duration_of(seconds);
  std::unique_lock<std::mutex> lock(mutex_);
  while (is_call_over && !completed_ && steady_clock::now() < until) {
    const bool is_time_to_ask = cv_.wait_for(lock, kQuestionInterval) == std::cv_status::timeout;
    if (!is_time_to_ask || asked == nullptr) continue;
    lock.unlock();  // handlers may ask for the work
    if (asked->is_wanted()) asked->rethrow();
    lock.lock();
  }
  TORCH_CHECK(is_call_over && completed_, "cohort: Timed out: not over after ", seconds,
              " s; give it more time, or find who has not called it");
}

bool CohortWork::wait(std::chrono::milliseconds timeout) {
  const Waiting waiting;
  wait_until_over(std::chrono::duration<double>(timeout).count());
  tell_future();
  std::unique_lock<std::mutex> lock(mutex_);
  const c10::intrusive_ptr<Future> future = future_;
  lock.unlock();
  if (future) future->wait();  // somebody may be at it
  dump_failure();
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

/// Whoever waits for a future sleeps, deaf to signals, until the session's thread and a teller have come to
/// it. DistributedDataParallel waits for its buckets' at the end of backward(): what is done before it there
/// drives them in the same thread, and hears Ctrl-C. How the call ended is left to who has the future.
void CohortWork::wait_at_end_of_backward() {
  if (c10d::isP2POp(retrieveOpType())) return;  // the other end may wait for what comes after
  if (torch::autograd::get_current_graph_task_nodes_in_graph() == nullptr) return;  // there is none
  auto self = c10::intrusive_ptr<CohortWork>::reclaim_copy(this);
  torch::autograd::Engine::get_default_engine().queue_callback([self] {
    const Waiting waiting;
    try {
      self->wait_until_over(0);
    } catch (pybind11::error_already_set& raised) {
      throw_as_torch_does(raised);
    }
    self->tell_future();
  });
}

float CohortWork::getDuration() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(began_,
              "cohort: calls are not timed: enable it before the call, by _enable_collectives_timing()");
  TORCH_CHECK(completed_, "cohort: the call is not over: wait for it");
  return std::chrono::duration<float, std::milli>(took_).count();
}

c10::intrusive_ptr<Future> CohortWork::getFuture() {
  c10::intrusive_ptr<Future> future;
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = !future_;
    if (is_first) future_ = make_future();
    future = future_;
  }
  if (is_first) wait_at_end_of_backward();
  tell_future();
  return future;
}

}  // namespace cohort::torch_face
