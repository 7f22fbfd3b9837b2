// SPDX-License-Identifier: Apache-2.0
// MPI_Send, MPI_Recv, MPI_Probe and their kind.
#include <cohort/bindings/mpi/request.h>
#include <cohort_mpi/calls.h>

#include <cstring>
#include <optional>

namespace cohort::mpi {
namespace {

/// A message that a probe has put aside.
struct Message {
  std::shared_ptr<Comm> comm;
  Envelope envelope;
};
Handles<Message>& made_messages() {
  static auto& all = *new Handles<Message>(abi::kMadeRequest, "message", abi::kErrRequest);
  return all;
}

void check_tag(int tag, bool may_be_any) {
  const bool is_any = may_be_any && tag == abi::kAnyTag;
  if (!is_any && (tag < 0 || tag > abi::kMostTag))
    fail(abi::kErrTag, fmt::format("tag {}; give 0 to {}", tag, abi::kMostTag));
}

void check_peer(const Prepared& prepared, int rank, bool may_be_any) {
  if (may_be_any && rank == abi::kAnySource) return;
  if (rank < 0 || rank >= prepared.comm()->size())
    fail(abi::kErrRank, fmt::format("rank {} of a communicator of {}", rank, prepared.comm()->size()));
}

/// Who and what is asked for.
MessageRequest request_from(const Prepared& prepared, int source, int tag) {
  check_peer(prepared, source, true);
  check_tag(tag, true);
  MessageRequest request;
  request.peer = source == abi::kAnySource ? MessageRequest::kAnybody : static_cast<Rank>(source);
  request.tag = tag;
  request.takes_any_tag = tag == abi::kAnyTag;
  request.takes_less = true;
  return request;
}

MessageRequest sending(Prepared& prepared, std::span<const std::byte> data, int dest, int tag) {
  check_peer(prepared, dest, false);
  MessageRequest request;
  request.sends = true;
  request.peer = static_cast<Rank>(dest);
  request.tag = tag;
  request.data = const_cast<std::byte*>(data.data());
  request.bytes = data.size();
  return request;
}

Prepared prepare_send(const void* buffer, Number count, MPI_Datatype datatype, int dest, int tag,
                      MPI_Comm comm, bool is_synchronous = false) {
  Prepared prepared(comm);
  check_tag(tag, false);
  if (dest == abi::kProcNull) {
    prepared.with_nobody();
    return prepared;
  }
  MessageRequest request = sending(prepared, prepared.input(buffer, count, datatype), dest, tag);
  request.is_synchronous = is_synchronous;
  prepared.call(request);
  return prepared;
}

std::span<std::byte> copy_of(Prepared& prepared, std::span<const std::byte> data) {
  const std::span<std::byte> copy = prepared.room(data.size());
  if (!data.empty()) std::memcpy(copy.data(), data.data(), data.size());
  return copy;
}

MessageRequest receiving(const Prepared& prepared, std::span<std::byte> data, int source, int tag) {
  MessageRequest request = request_from(prepared, source, tag);
  request.data = data.data();
  request.bytes = data.size();
  return request;
}

/// Both ways at once; each may be with nobody.
void exchange(Prepared& prepared, const std::optional<MessageRequest>& to,
              const std::optional<MessageRequest>& from) {
  if (!from) prepared.with_nobody();
  if (to && from) prepared.receive_too(*from);
  if (to)
    prepared.call(*to);
  else if (from)
    prepared.call(*from);
}

std::optional<Envelope> look(MPI_Comm comm, int source, int tag, MessageRequest::Probe probe, bool waits) {
  const Prepared prepared(comm);
  MessageRequest request = request_from(prepared, source, tag);
  request.probe = probe;
  return waits ? prepared.shared().call_message(request) : prepared.shared().look_now(request);
}

/// Puts a message aside, if there is one or `waits`. It has its handle before: without one nobody could
/// receive it any more.
std::optional<Envelope> claim(MPI_Comm comm, int source, int tag, bool waits, MPI_Message* handle) {
  auto message = std::make_shared<Message>(Message{comm_of(comm), {}});
  const MPI_Message made = made_messages().add(message);
  std::optional<Envelope> found;
  try {
    found = look(comm, source, tag, MessageRequest::Probe::claims, waits);
  } catch (...) {
    made_messages().remove(made);
    throw;
  }
  if (!found) made_messages().remove(made);
  if (found) message->envelope = *found;
  *handle = found ? made : abi::kMessageNull;
  return found;
}

}  // namespace

Prepared send(const void* buffer, Number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return prepare_send(buffer, count, datatype, dest, tag, comm);
}
Prepared ssend(const void* buffer, Number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return prepare_send(buffer, count, datatype, dest, tag, comm, true);
}
/// That its receiver is there makes no difference here.
Prepared rsend(const void* buffer, Number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return prepare_send(buffer, count, datatype, dest, tag, comm);
}

/// Copied to memory of its own: what MPI_Buffer_attach gives is not used, but has to be there.
Prepared bsend(const void* buffer, Number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  Prepared prepared(comm);
  check_tag(tag, false);
  if (dest == abi::kProcNull) return prepared;
  const std::span<const std::byte> data = prepared.input(buffer, count, datatype);
  if (Process::get().buffer_bytes < static_cast<Number>(data.size()))
    fail(abi::kErrBuffer,
         fmt::format("{} bytes do not fit the buffer of {}; give MPI_Buffer_attach a larger one", data.size(),
                     std::max<Number>(Process::get().buffer_bytes, 0)));
  prepared.call(sending(prepared, copy_of(prepared, data), dest, tag));
  prepared.buffer();
  return prepared;
}

Prepared recv(void* buffer, Number count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm) {
  Prepared prepared(comm);
  if (source == abi::kProcNull) {
    prepared.with_nobody();
    return prepared;
  }
  prepared.call(receiving(prepared, prepared.landing(buffer, count, datatype), source, tag));
  return prepared;
}

Prepared sendrecv(const void* send_buffer, Number send_count, MPI_Datatype send_type, int dest, int send_tag,
                  void* recv_buffer, Number recv_count, MPI_Datatype recv_type, int source, int recv_tag,
                  MPI_Comm comm) {
  Prepared prepared(comm);
  check_tag(send_tag, false);
  std::optional<MessageRequest> to;
  std::optional<MessageRequest> from;
  if (dest != abi::kProcNull)
    to = sending(prepared, prepared.input(send_buffer, send_count, send_type), dest, send_tag);
  if (source != abi::kProcNull)
    from = receiving(prepared, prepared.landing(recv_buffer, recv_count, recv_type), source, recv_tag);
  exchange(prepared, to, from);
  return prepared;
}

Prepared sendrecv_replace(void* buffer, Number count, MPI_Datatype datatype, int dest, int send_tag,
                          int source, int recv_tag, MPI_Comm comm) {
  Prepared prepared(comm);
  check_tag(send_tag, false);
  std::optional<MessageRequest> to;
  std::optional<MessageRequest> from;
  if (dest != abi::kProcNull)
    to = sending(prepared, copy_of(prepared, prepared.input(buffer, count, datatype)), dest, send_tag);
  if (source != abi::kProcNull)
    from = receiving(prepared, prepared.landing(buffer, count, datatype), source, recv_tag);
  exchange(prepared, to, from);
  return prepared;
}

void probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (source == abi::kProcNull) return give_status_of_nobody(status);
  give_status(status, *look(comm, source, tag, MessageRequest::Probe::looks, true));
}

void iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  *flag = 1;
  if (source == abi::kProcNull) return give_status_of_nobody(status);
  const std::optional<Envelope> found = look(comm, source, tag, MessageRequest::Probe::looks, false);
  *flag = found ? 1 : 0;
  if (found) give_status(status, *found);
}

void mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  *message = abi::kMessageNoProc;
  if (source == abi::kProcNull) return give_status_of_nobody(status);
  give_status(status, *claim(comm, source, tag, true, message));
}

void improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  *flag = 1;
  *message = abi::kMessageNoProc;
  if (source == abi::kProcNull) return give_status_of_nobody(status);
  const std::optional<Envelope> found = claim(comm, source, tag, false, message);
  *flag = found ? 1 : 0;
  if (found) give_status(status, *found);
}

Prepared mrecv(void* buffer, Number count, MPI_Datatype datatype, MPI_Message* message) {
  if (*message == abi::kMessageNoProc) {
    Prepared prepared(abi::kCommWorld);
    prepared.with_nobody();
    *message = abi::kMessageNull;
    return prepared;
  }
  const std::shared_ptr<Message> of = made_messages().at(*message);
  Prepared prepared(of->comm);
  const std::span<std::byte> data = prepared.landing(buffer, count, datatype);
  MessageRequest request;
  request.peer = of->envelope.from;
  request.tag = of->envelope.tag;
  request.takes_less = true;
  request.data = data.data();
  request.bytes = data.size();
  request.claim = of->envelope.claim;
  prepared.call(request);
  made_messages().remove(*message);
  *message = abi::kMessageNull;
  return prepared;
}

}  // namespace cohort::mpi
