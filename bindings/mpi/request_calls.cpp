// SPDX-License-Identifier: Apache-2.0
// MPI_Wait... and MPI_Test...: requests, and what statuses tell.
#include <cohort/bindings/mpi/request.h>
#include <cohort_mpi/calls.h>

#include <algorithm>
#include <limits>

namespace cohort::mpi {
namespace {

constexpr std::size_t kMostOfLow = std::numeric_limits<unsigned>::max();

MPI_Status* status_at(MPI_Status* statuses, std::size_t index) {
  return statuses == nullptr || statuses == abi::kStatusIgnore ? abi::kStatusIgnore : statuses + index;
}

/// Null of MPI_REQUEST_NULL.
std::shared_ptr<Request> request_of(MPI_Request handle) {
  return handle == abi::kRequestNull ? nullptr : made_requests().at(handle);
}

using Requests = std::vector<std::shared_ptr<Request>>;
Requests requests_of(int count, const MPI_Request* handles) {
  if (count < 0) fail(abi::kErrArg, fmt::format("a count of {}", count));
  Requests all;
  for (int i = 0; i < count; ++i) all.push_back(request_of(handles[i]));
  return all;
}

bool is_active(const std::shared_ptr<Request>& request) { return request != nullptr && request->is_active(); }

/// What is over: its status, and its handle back, unless it can be started again. The code of its call.
int take(Request& request, MPI_Request* handle, MPI_Status* status) {
  const bool ends = !request.is_persistent();
  int code = abi::kSuccess;
  try {
    request.take(status);
  } catch (...) {
    code = keep_failure(request.function(), std::current_exception());
  }
  if (ends) {
    made_requests().remove(*handle);
    *handle = abi::kRequestNull;
  }
  return code;
}

/// The same of a call that has one request: as its communicator's error handler wants it.
int take_one(Request& request, MPI_Request* handle, MPI_Status* status) {
  const MPI_Comm comm = request.comm();
  const int code = take(request, handle, status);
  return code == abi::kSuccess ? code : report_code(comm, code);
}

/// Of several that are over, by their places. Statuses are in that order, and their codes are in them.
class Takings {
 public:
  Takings(const Requests& requests, MPI_Request* handles, MPI_Status* statuses)
      : requests_(requests), handles_(handles), statuses_(statuses) {}

  void add(std::size_t place, std::size_t status_place) {
    Request& request = *requests_[place];
    MPI_Status* const status = status_at(statuses_, status_place);
    const MPI_Comm comm = request.comm();
    const int code = take(request, handles_ + place, status);
    if (status != abi::kStatusIgnore) status->MPI_ERROR = code;
    if (code == abi::kSuccess || failed_ != abi::kSuccess) return;
    failed_ = code;
    comm_ = comm;
  }
  /// The first failure, told as that of all.
  [[nodiscard]] int finish(const char* function) const {
    if (failed_ == abi::kSuccess) return abi::kSuccess;
    const auto of = statuses_ == nullptr || statuses_ == abi::kStatusIgnore
                        ? static_cast<abi::ErrorClass>(class_of_code(failed_))
                        : abi::kErrInStatus;
    return report(function, comm_, std::make_exception_ptr(Failure(of, text_of_code(failed_))));
  }

 private:
  const Requests& requests_;
  MPI_Request* const handles_;
  MPI_Status* const statuses_;
  int failed_ = abi::kSuccess;  ///< the first code that is another
  MPI_Comm comm_ = abi::kCommWorld;
};

/// Whether one of them is active, and one is over then. Looks at each once: it may end meanwhile.
bool wait_for_any(const Requests& requests) {
  if (std::ranges::none_of(requests, is_active)) return false;
  for (;;) {
    std::vector<std::shared_ptr<bindings::Work>> works;
    const auto is_over = [&](const auto& one) { return is_active(one) && !one->append_to(works); };
    if (std::ranges::any_of(requests, is_over)) return true;
    (void)Process::get().loop().wait_any(works, kNever);
  }
}

int take_first(const Requests& requests, MPI_Request* handles, int* index, MPI_Status* status) {
  const auto found =
      std::ranges::find_if(requests, [](const auto& one) { return is_active(one) && one->is_over(); });
  const auto place = found - requests.begin();
  *index = static_cast<int>(place);
  return take_one(**found, handles + place, status);
}

int take_all_over(const char* function, const Requests& requests, MPI_Request* handles, int* count,
                  int* indices, MPI_Status* statuses) {
  Takings takings(requests, handles, statuses);
  *count = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!is_active(requests[i]) || !requests[i]->is_over()) continue;
    takings.add(i, static_cast<std::size_t>(*count));
    indices[(*count)++] = static_cast<int>(i);
  }
  return takings.finish(function);
}

void give_empty_statuses(std::size_t place, MPI_Status* statuses) {
  MPI_Status* const status = status_at(statuses, place);
  if (status == abi::kStatusIgnore) return;
  give_empty_status(status);
  status->MPI_ERROR = abi::kSuccess;
}

int take_all(const char* function, const Requests& requests, MPI_Request* handles, MPI_Status* statuses) {
  Takings takings(requests, handles, statuses);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (is_active(requests[i]))
      takings.add(i, i);
    else
      give_empty_statuses(i, statuses);
  return takings.finish(function);
}

}  // namespace

void give_empty_status(MPI_Status* status) noexcept {
  if (status == nullptr || status == abi::kStatusIgnore) return;
  status->count_low = status->count_high_and_cancelled = 0;
  status->MPI_SOURCE = abi::kAnySource;
  status->MPI_TAG = abi::kAnyTag;
}

void give_status_bytes(MPI_Status* status, std::size_t bytes) noexcept {
  status->count_low = static_cast<int>(static_cast<unsigned>(bytes & kMostOfLow));
  const int cancelled = status->count_high_and_cancelled & 1;
  status->count_high_and_cancelled = static_cast<int>(bytes >> 32) << 1 | cancelled;
}

std::size_t bytes_of_status(const MPI_Status& status) noexcept {
  const auto high = static_cast<std::size_t>(static_cast<unsigned>(status.count_high_and_cancelled) >> 1);
  return high << 32 | static_cast<unsigned>(status.count_low);
}

void give_status(MPI_Status* status, const Envelope& envelope) noexcept {
  if (status == nullptr || status == abi::kStatusIgnore) return;
  give_empty_status(status);
  status->MPI_SOURCE = static_cast<int>(envelope.from);
  status->MPI_TAG = envelope.tag;
  give_status_bytes(status, envelope.bytes);
}

void give_status_of_nobody(MPI_Status* status) noexcept {
  give_empty_status(status);
  if (status != nullptr && status != abi::kStatusIgnore) status->MPI_SOURCE = abi::kProcNull;
}

int wait(MPI_Request* handle, MPI_Status* status) {
  const std::shared_ptr<Request> request = request_of(*handle);
  if (!is_active(request)) {
    give_empty_status(status);
    return abi::kSuccess;
  }
  request->wait();
  return take_one(*request, handle, status);
}

int test(MPI_Request* handle, int* flag, MPI_Status* status) {
  const std::shared_ptr<Request> request = request_of(*handle);
  *flag = !is_active(request) || request->test() ? 1 : 0;
  if (!is_active(request)) {
    give_empty_status(status);
    return abi::kSuccess;
  }
  return *flag != 0 ? take_one(*request, handle, status) : abi::kSuccess;
}

int waitall(int count, MPI_Request* handles, MPI_Status* statuses) {
  const Requests requests = requests_of(count, handles);
  for (const auto& request : requests)
    if (is_active(request)) request->wait();
  return take_all("MPI_Waitall", requests, handles, statuses);
}

int testall(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  const Requests requests = requests_of(count, handles);
  *flag = 1;
  for (const auto& request : requests)
    if (is_active(request) && !request->test()) *flag = 0;
  return *flag != 0 ? take_all("MPI_Testall", requests, handles, statuses) : abi::kSuccess;
}

int waitany(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  const Requests requests = requests_of(count, handles);
  if (wait_for_any(requests)) return take_first(requests, handles, index, status);
  *index = abi::kUndefined;
  give_empty_status(status);
  return abi::kSuccess;
}

int testany(int count, MPI_Request* handles, int* index, int* flag, MPI_Status* status) {
  const Requests requests = requests_of(count, handles);
  const bool has_active = std::ranges::any_of(requests, is_active);
  const bool is_one_over =
      std::ranges::any_of(requests, [](const auto& one) { return is_active(one) && one->test(); });
  *flag = is_one_over || !has_active ? 1 : 0;
  if (is_one_over) return take_first(requests, handles, index, status);
  *index = abi::kUndefined;
  if (!has_active) give_empty_status(status);
  return abi::kSuccess;
}

int waitsome(int count, MPI_Request* handles, int* over, int* indices, MPI_Status* statuses) {
  const Requests requests = requests_of(count, handles);
  if (wait_for_any(requests)) {
    for (const auto& request : requests)
      if (is_active(request)) (void)request->test();
    return take_all_over("MPI_Waitsome", requests, handles, over, indices, statuses);
  }
  *over = abi::kUndefined;
  return abi::kSuccess;
}

int testsome(int count, MPI_Request* handles, int* over, int* indices, MPI_Status* statuses) {
  const Requests requests = requests_of(count, handles);
  *over = abi::kUndefined;
  if (std::ranges::none_of(requests, is_active)) return abi::kSuccess;
  for (const auto& request : requests)
    if (is_active(request)) (void)request->test();
  return take_all_over("MPI_Testsome", requests, handles, over, indices, statuses);
}

void request_free(MPI_Request* handle) {
  made_requests().remove(*handle)->let_go();
  *handle = abi::kRequestNull;
}

void request_get_status(MPI_Request handle, int* flag, MPI_Status* status) {
  const std::shared_ptr<Request> request = request_of(handle);
  *flag = !is_active(request) || request->test() ? 1 : 0;
  if (!is_active(request))
    give_empty_status(status);
  else if (*flag != 0)
    request->tell(status);
}

void start(MPI_Request* handle) { made_requests().at(*handle)->begin_again(); }
void startall(int count, MPI_Request* handles) {
  for (const auto& request : requests_of(count, handles)) {
    if (request == nullptr) fail(abi::kErrRequest, "one of them is MPI_REQUEST_NULL");
    request->begin_again();
  }
}
void cancel(MPI_Request* handle) { made_requests().at(*handle)->cancel(); }

void test_cancelled(const MPI_Status* status, int* flag) { *flag = status->count_high_and_cancelled & 1; }
void status_set_cancelled(MPI_Status* status, int flag) {
  status->count_high_and_cancelled = (status->count_high_and_cancelled & ~1) | (flag != 0 ? 1 : 0);
}
void status_set_elements(MPI_Status* status, MPI_Datatype datatype, Number count) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t per_basic = type->basics == 0 ? 0 : type->size / type->basics;
  give_status_bytes(status, static_cast<std::size_t>(std::max<Number>(count, 0)) * per_basic);
}
void status_set_elements_x(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  status_set_elements(status, datatype, count);
}

void get_count(const MPI_Status* status, MPI_Datatype datatype, NumberOut count) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of_status(*status);
  if (type->size == 0)
    count.set(bytes == 0 ? 0 : abi::kUndefined);
  else
    count.set(bytes % type->size == 0 ? static_cast<Number>(bytes / type->size) : abi::kUndefined);
}

/// Of a datatype of different ones only where it came whole.
void get_elements(const MPI_Status* status, MPI_Datatype datatype, NumberOut count) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of_status(*status);
  const std::size_t per_basic = type->basics == 0 ? 0 : type->size / type->basics;
  const bool is_even = type->element != Element::none && per_basic != 0 && bytes % per_basic == 0;
  if (type->size == 0)
    count.set(0);
  else if (bytes % type->size == 0)
    count.set(static_cast<Number>(bytes / type->size * type->basics));
  else
    count.set(is_even ? static_cast<Number>(bytes / per_basic) : abi::kUndefined);
}
void get_elements_x(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  get_elements(status, datatype, count);
}

}  // namespace cohort::mpi
