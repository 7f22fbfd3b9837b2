// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/shared_memory.h>

#include <cohort/engine/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cohort {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedMemory SharedMemory::create(std::size_t bytes) {
  SharedMemory memory;
  memory.descriptor_ = Descriptor(::memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.descriptor_.is_open()) throw system_error(errno, "creating a shared memory segment (memfd)");
  if (::ftruncate(memory.descriptor(), static_cast<off_t>(bytes)) != 0)
    throw system_error(errno, fmt::format("sizing a shared memory segment to {} bytes", bytes));
  if (::fcntl(memory.descriptor(), F_ADD_SEALS, kSeals) != 0)
    throw system_error(errno, "sealing a shared memory segment");
  memory.map_descriptor(bytes);
  return memory;
}

SharedMemory SharedMemory::map(Descriptor descriptor, std::size_t bytes) {
  SharedMemory memory;
  memory.descriptor_ = std::move(descriptor);
  struct stat status {};
  const int seals = ::fcntl(memory.descriptor(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(memory.descriptor(), &status) != 0 ||
      std::cmp_not_equal(status.st_size, bytes))
    throw Error(
        ErrorKind::ProtocolError,
        fmt::format("a peer's shared memory segment has {} bytes and seals {:#x}, expected {} and {:#x}",
                    status.st_size, seals, bytes, kSeals));
  memory.map_descriptor(bytes);
  return memory;
}

void SharedMemory::map_descriptor(std::size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_.number(), 0);
  if (address == MAP_FAILED)
    throw system_error(errno,
                       fmt::format("mapping a shared memory segment of {} bytes (is ulimit -v set?)", bytes));
  ::madvise(address, bytes, MADV_DONTDUMP);
  ::madvise(address, bytes, MADV_DONTFORK);
  data_ = static_cast<std::byte*>(address);
  size_bytes_ = bytes;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
}

bool SharedMemory::contains(const void* address, std::size_t bytes) const noexcept {
  const auto* begin = static_cast<const std::byte*>(address);
  return data_ != nullptr && begin >= data_ && begin <= data_ + size_bytes_ &&
         bytes <= static_cast<std::size_t>(data_ + size_bytes_ - begin);
}

void SharedMemory::commit(std::size_t offset, std::size_t bytes) {
  if (::fallocate(descriptor(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
    throw system_error(errno,
                       fmt::format("committing {} bytes of shared memory (check free memory and the cgroup's "
                                   "limit, or lower COHORT_BUFFSIZE)",
                                   bytes));
}

void SharedMemory::discard(std::size_t offset, std::size_t bytes) noexcept {
  ::fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

}  // namespace cohort
