// SPDX-License-Identifier: Apache-2.0
// Communicators by name.
#include <cohort/bindings/hccl/asking.h>
#include <cohort/bindings/hccl/handles.h>
#include <cohort/bindings/hccl/joining.h>

#include <acl/acl_tdt.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace cohort::bindings::hccl {
namespace {

/// As ask(), with codes of AscendCL.
template <class Body>
aclError ask_acl(const char* function, acltdtComm comm, aclrtStream stream, const Body& body) noexcept {
  return acl_guarded([&] {
    Asking asking(function, comm, stream);
    body(asking);
    asking.give_to_stream();
  });
}

/// How many elements so many bytes are.
std::size_t count_of(const char* function, std::size_t size, const ElementForm& element) {
  if (size % element.size_bytes() != 0)
    refuse(fmt::format("{}: {} bytes are no whole number of elements of {}; give bytes", function, size,
                       element.size_bytes()));
  return size / element.size_bytes();
}

}  // namespace
}  // namespace cohort::bindings::hccl

using namespace cohort::bindings::hccl;
using namespace cohort;

aclError acltdtCreateComm(acltdtComm* comm, int32_t worldSize, int32_t rankId, const char* name,
                          aclrtStream) {
  return acl_guarded([&] {
    given(comm, "acltdtCreateComm", "comm") = nullptr;
    const std::string common = &given(name, "acltdtCreateComm", "name");
    if (worldSize < 1 || rankId < 0 || rankId >= worldSize)
      refuse(fmt::format(
          "acltdtCreateComm: rank {} of {}: ranks are numbered from 0 to the number of them less 1", rankId,
          worldSize));
    CommunicatorOptions options = options_of("acltdtCreateComm", nullptr);
    place_by_name(common, static_cast<Rank>(rankId), static_cast<Rank>(worldSize), options);
    *comm = Handles<Comm>::all().add(join(std::move(options)));
  });
}

aclError acltdtDestroyComm(acltdtComm comm) {
  return acl_guarded([&] {
    need(comm, "acltdtDestroyComm", "comm");
    Stream::refuse_own_threads("acltdtDestroyComm");
    Handles<Comm>::all().take(comm, "acltdtDestroyComm", "communicator")->close();
  });
}

aclError acltdtCommAllReduce(acltdtComm comm, void* buffer, size_t size, aclDataType dataType,
                             acltdtCommReduceOp op, aclrtStream stream) {
  return ask_acl("acltdtCommAllReduce", comm, stream, [&](Asking& asking) {
    const ElementForm element = combined_element_of("acltdtCommAllReduce", dataType);
    asking.move(element);
    asking.reduce_by(reduce_op_of("acltdtCommAllReduce", op));
    asking.add_collective(operator_of<AllReduce>, buffer, buffer,
                          count_of("acltdtCommAllReduce", size, element));
  });
}

aclError acltdtCommBroadcast(acltdtComm comm, void* buffer, size_t size, aclDataType dataType, int32_t root,
                             aclrtStream stream) {
  return ask_acl("acltdtCommBroadcast", comm, stream, [&](Asking& asking) {
    const ElementForm element = combined_element_of("acltdtCommBroadcast", dataType);
    asking.move(element);
    asking.set_root(static_cast<std::uint32_t>(root));
    asking.add_collective(operator_of<Broadcast>, nullptr, buffer,
                          count_of("acltdtCommBroadcast", size, element));
  });
}
