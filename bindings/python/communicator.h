// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/request.h>
#include <cohort/bindings/python/tensor.h>
#include <cohort/bindings/session/session.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::python {

/// What all calls take besides their tensors.
struct CallOptions {
  py::object timeout;    ///< seconds; None: the communicator's
  py::object algorithm;  ///< a name; None: selected
  py::object dtype;      ///< what elements are to be taken for; None: what they are
  bool is_async = false;
};

/// cohort.Communicator: calls of Python's on a communicator. Docstrings are in calls.cpp, types in
/// _cohort.pyi.
///
/// Threads: with the interpreter's lock, which is not held while a call waits.
class PyCommunicator {
 public:
  explicit PyCommunicator(std::shared_ptr<bindings::SharedCommunicator> comm) : comm_(std::move(comm)) {}

  [[nodiscard]] const bindings::SharedCommunicator& get() const noexcept { return *comm_; }
  [[nodiscard]] const std::shared_ptr<bindings::SharedCommunicator>& shared() const noexcept { return comm_; }

  py::object barrier(const CallOptions& options);
  py::object broadcast(const py::object& tensor, Rank root, const CallOptions& options);
  /// all_reduce, scan and exclusive_scan: out is as large as the input.
  py::object combine(Operator op, const py::object& tensor, const py::object& reduction,
                     const py::object& out, const CallOptions& options);
  py::object reduce(const py::object& tensor, const py::object& reduction, Rank root, const py::object& out,
                    const CallOptions& options);
  py::object all_gather(const py::object& tensor, const py::object& out, const py::object& sizes,
                        const CallOptions& options);
  py::object reduce_scatter(const py::object& tensor, const py::object& reduction, const py::object& out,
                            const py::object& sizes, bool is_uneven, const CallOptions& options);
  py::object gather(const py::object& tensor, Rank root, const py::object& out, const py::object& sizes,
                    const CallOptions& options);
  py::object scatter(const py::object& tensor, Rank root, const py::object& out, const py::object& sizes,
                     const CallOptions& options);
  py::object all_to_all(const py::object& tensor, const py::object& out, const py::object& send_sizes,
                        const py::object& recv_sizes, const CallOptions& options);
  py::object send(const py::object& tensor, Rank to, std::int32_t tag, const CallOptions& options);
  /// `source` None: from anybody. The rank that it is from.
  py::object recv(const py::object& tensor, const py::object& source, std::int32_t tag,
                  const CallOptions& options);

  std::optional<PyCommunicator> split(int color, int key);
  PyCommunicator group(std::vector<Rank> ranks, std::string name);
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  [[nodiscard]] std::string explain(const std::string& op, const std::string& type, std::size_t bytes);
  [[nodiscard]] py::object failure();
  void close();
  void abort(const std::string& reason);

 private:
  /// Rows of each rank, in the library's elements, when they differ.
  using Counts = std::vector<std::size_t>;

  [[nodiscard]] py::object finish(std::string_view name, bindings::AnyCall call, const CallOptions& options,
                                  const py::object& result, std::vector<Tensor> tensors, Counts counts = {},
                                  Counts other_counts = {});
  [[nodiscard]] py::object wait_for(const std::string& name, const bindings::AnyCall& call,
                                    const bindings::CallSettings& settings,
                                    const std::vector<Tensor>& tensors, const py::object& result);
  [[nodiscard]] py::object call_on_list(Operator op, const py::object& tensors, const py::object& reduction,
                                        const py::object& out, Rank root, const CallOptions& options);
  /// How many rows each rank brings, where they may differ: asked for, unless all is known.
  [[nodiscard]] std::vector<std::size_t> rows_of_all(std::string_view name, const Tensor& tensor,
                                                     const py::object& out, const py::object& sizes,
                                                     const CallOptions& options);
  [[nodiscard]] std::vector<std::size_t> ask_rows(std::string_view name, const Tensor& tensor,
                                                  const CallOptions& options);
  /// `parameter`: of the call, for who reads what is wrong with it.
  [[nodiscard]] std::vector<std::size_t> sizes_of(std::string_view name, const py::object& sizes,
                                                  const char* parameter = "sizes") const;
  [[nodiscard]] Tensor make_scattered(const Tensor* from, Rank root, const CallOptions& options);
  void check_root(std::string_view name, Rank root) const;

  std::shared_ptr<bindings::SharedCommunicator> comm_;
};

}  // namespace cohort::python
