// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/shared_memory.h>

#include <cohort/engine/error.h>
#include <cohort/engine/immovable.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <compare>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

namespace cohort {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Linux 6.1; older C libraries lack the name.
constexpr int kMadviseCollapse = 25;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// What tells segments apart while they exist. A forked child has none of its parent's mappings
/// (MADV_DONTFORK), but a copy of the table below.
struct SegmentName {
  ::pid_t process = 0;
  ::dev_t device = 0;
  ::ino_t number = 0;

  static SegmentName of(int descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0)
      throw system_error(errno, "asking for a shared memory segment's name");
    return {::getpid(), status.st_dev, status.st_ino};
  }
  auto operator<=>(const SegmentName&) const = default;
};

/// Beyond the limit on the size of files, which counts for memory without a name, too, ftruncate would end
/// the process by SIGXFSZ, without a word.
void check_file_size_limit(std::size_t bytes) {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return;
  throw Error(
      ErrorKind::ResourceLimit,
      fmt::format("a shared memory segment of {} bytes is beyond what this process may make a file, {} "
                  "bytes: raise the limit (ulimit -f), or lower COHORT_HEAPSIZE, which most of it is for",
                  bytes, limit.rlim_cur));
}

}  // namespace

/// A segment at an address. Those that this process made or shares can be found by their names, from any
/// thread.
class SharedMemory::Mapping : Immovable {
 public:
  /// At the start of a huge page: within address space, alone and no memory, that leaves room for that.
  Mapping(int descriptor, std::size_t bytes)
      : bytes_(bytes),
        reserved_bytes_(bytes + kHugePageBytes),
        reserved_(
            ::mmap(nullptr, reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    void* address = MAP_FAILED;
    if (reserved_ != MAP_FAILED) {
      const std::size_t aligned = round_up(reinterpret_cast<std::uintptr_t>(reserved_), kHugePageBytes);
      address = ::mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, descriptor, 0);
    }
    if (address == MAP_FAILED) {
      const int failure = errno;
      if (reserved_ != MAP_FAILED) ::munmap(reserved_, reserved_bytes_);
      throw system_error(
          failure,
          fmt::format("mapping a shared memory segment of {} bytes; most of it is address space for "
                      "comm.allocate(), of every rank of this host: lower COHORT_HEAPSIZE (64M, say, "
                      "on all ranks), or raise the limit (ulimit -v)",
                      bytes));
    }
    ::madvise(address, bytes, MADV_DONTDUMP);
    ::madvise(address, bytes, MADV_DONTFORK);
    data_ = static_cast<std::byte*>(address);
  }
  ~Mapping() { ::munmap(reserved_, reserved_bytes_); }

  /// The one that this process has already, or a new one.
  static std::shared_ptr<const Mapping> find_or_make(int descriptor, std::size_t bytes) {
    static std::mutex mutex;
    static std::map<SegmentName, std::weak_ptr<const Mapping>> by_name;
    const SegmentName name = SegmentName::of(descriptor);
    const std::lock_guard lock(mutex);
    std::erase_if(by_name, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<const Mapping>& known = by_name[name];
    std::shared_ptr<const Mapping> mapping = known.lock();
    if (mapping == nullptr) known = mapping = std::make_shared<const Mapping>(descriptor, bytes);
    return mapping;
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  const std::size_t bytes_;
  const std::size_t reserved_bytes_;
  void* const reserved_;
};

void SharedMemory::use(std::shared_ptr<const Mapping> mapping) noexcept {
  mapping_ = std::move(mapping);
  data_ = mapping_->data();
  size_bytes_ = mapping_->size_bytes();
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
}

SharedMemory SharedMemory::create(std::size_t bytes) {
  check_file_size_limit(bytes);
  SharedMemory memory;
  memory.descriptor_ = Descriptor(::memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.descriptor_.is_open()) throw system_error(errno, "creating a shared memory segment (memfd)");
  if (::ftruncate(memory.descriptor(), static_cast<off_t>(bytes)) != 0)
    throw system_error(errno, fmt::format("sizing a shared memory segment to {} bytes", bytes));
  if (::fcntl(memory.descriptor(), F_ADD_SEALS, kSeals) != 0)
    throw system_error(errno, "sealing a shared memory segment");
  memory.use(Mapping::find_or_make(memory.descriptor(), bytes));
  return memory;
}

SharedMemory SharedMemory::take(Descriptor descriptor, std::size_t bytes) {
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
  return memory;
}

SharedMemory SharedMemory::map(Descriptor descriptor, std::size_t bytes) {
  SharedMemory memory = take(std::move(descriptor), bytes);
  memory.use(std::make_shared<const Mapping>(memory.descriptor(), bytes));
  memory.descriptor_.close();
  return memory;
}

SharedMemory SharedMemory::share(Descriptor descriptor, std::size_t bytes) {
  SharedMemory memory = take(std::move(descriptor), bytes);
  memory.use(Mapping::find_or_make(memory.descriptor(), bytes));
  memory.descriptor_.close();
  return memory;
}

bool SharedMemory::contains(const void* address, std::size_t bytes) const noexcept {
  const auto* begin = static_cast<const std::byte*>(address);
  return data_ != nullptr && begin >= data_ && begin <= data_ + size_bytes_ &&
         bytes <= static_cast<std::size_t>(data_ + size_bytes_ - begin);
}

void SharedMemory::map_over(void* address, std::size_t offset, std::size_t bytes) {
  if (::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor(),
             static_cast<off_t>(offset)) == MAP_FAILED)
    throw system_error(errno, fmt::format("mapping {} bytes of shared memory over a buffer", bytes));
}

void SharedMemory::commit(std::size_t offset, std::size_t bytes) {
  int result = 0;
  do {  // a signal may end it at any page
    result = ::fallocate(descriptor(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0)
    throw system_error(errno,
                       fmt::format("committing {} bytes of shared memory (check free memory and the cgroup's "
                                   "limit, or lower COHORT_BUFFSIZE)",
                                   bytes));
}

bool SharedMemory::use_huge_pages(std::size_t offset, std::size_t bytes) noexcept {
  const std::size_t begin = round_up(offset, kHugePageBytes);
  const std::size_t end = (offset + bytes) / kHugePageBytes * kHugePageBytes;
  if (begin >= end) return true;
  return ::madvise(data_ + begin, end - begin, MADV_HUGEPAGE) == 0 &&
         ::madvise(data_ + begin, end - begin, kMadviseCollapse) == 0;
}

std::string SharedMemory::huge_page_policy() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  for (std::string word; file >> word;)  // "always within_size [advise] never ..."
    if (word.size() > 2 && word.front() == '[' && word.back() == ']') return word.substr(1, word.size() - 2);
  return "unknown";
}

void SharedMemory::discard(std::size_t offset, std::size_t bytes) noexcept {
  ::fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

}  // namespace cohort
