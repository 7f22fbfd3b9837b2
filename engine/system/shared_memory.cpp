// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/shared_memory.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/system/child_view.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

namespace cohort {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Older C libraries lack the names:
constexpr int kMadvisePopulateWrite = 23;  ///< Linux 5.14
constexpr int kMadviseCollapse = 25;       ///< Linux 6.1

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// What tells segments apart while they exist.
struct FileName {
  ::dev_t device = 0;
  ::ino_t number = 0;

  static FileName of(int descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0)
      throw system_error(errno, "asking for a shared memory segment's name");
    return {status.st_dev, status.st_ino};
  }
  bool operator==(const FileName&) const = default;
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

Descriptor make_segment(std::size_t bytes) {
  check_file_size_limit(bytes);
  Descriptor descriptor(::memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open()) throw system_error(errno, "creating a shared memory segment (memfd)");
  if (::ftruncate(descriptor.number(), static_cast<off_t>(bytes)) != 0)
    throw system_error(errno, fmt::format("sizing a shared memory segment to {} bytes", bytes));
  if (::fcntl(descriptor.number(), F_ADD_SEALS, kSeals) != 0)
    throw system_error(errno, "sealing a shared memory segment");
  return descriptor;
}

void check_segment(const Descriptor& descriptor, std::size_t bytes) {
  struct stat status {};
  const int seals = ::fcntl(descriptor.number(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(descriptor.number(), &status) != 0 ||
      std::cmp_not_equal(status.st_size, bytes))
    throw Error(
        ErrorKind::ProtocolError,
        fmt::format("a peer's shared memory segment has {} bytes and seals {:#x}, expected {} and {:#x}",
                    status.st_size, seals, bytes, kSeals));
}

Error no_address_space(int failure, std::size_t bytes) {
  return system_error(
      failure, fmt::format("mapping a shared memory segment of {} bytes; most of it is address space for "
                           "comm.allocate(), of every rank of this host: lower COHORT_HEAPSIZE (64M, say, "
                           "on all ranks), or raise the limit (ulimit -v)",
                           bytes));
}

/// A signal may end it at any page.
template <class Call>
int failure_of(const Call& call) {
  while (call() != 0)
    if (errno != EINTR) return errno;
  return 0;
}

Error no_memory(int failure, std::size_t bytes) {
  return system_error(failure,
                      fmt::format("committing {} bytes of shared memory (check free memory and the cgroup's "
                                  "limit, or lower COHORT_BUFFSIZE)",
                                  bytes));
}

}  // namespace

/// Address space, and the segment that backs it, once there is one.
class SharedMemory::Mapping : Immovable {
 public:
  /// At the start of a huge page: within address space, alone and no memory, that leaves room for that.
  explicit Mapping(std::size_t bytes)
      : bytes_(bytes),
        reserved_bytes_(bytes + kHugePageBytes),
        reserved_(
            ::mmap(nullptr, reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (reserved_ == MAP_FAILED) throw no_address_space(errno, bytes);
    const std::size_t aligned = round_up(reinterpret_cast<std::uintptr_t>(reserved_), kHugePageBytes);
    data_ = reinterpret_cast<std::byte*>(aligned);
  }
  ~Mapping() {
    child_view_.reset();
    ::munmap(reserved_, reserved_bytes_);
  }

  /// The one of that name that this process has already, or a new one. A forked child has private
  /// views of its parent's mappings, and a copy of the table.
  static std::shared_ptr<Mapping> find_or_make(const std::string& name, std::size_t bytes) {
    static std::mutex mutex;
    static std::map<std::tuple<::pid_t, std::string, std::size_t>, std::weak_ptr<Mapping>> by_name;
    const std::lock_guard lock(mutex);
    std::erase_if(by_name, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Mapping>& known = by_name[{::getpid(), name, bytes}];
    std::shared_ptr<Mapping> mapping = known.lock();
    if (mapping == nullptr) known = mapping = std::make_shared<Mapping>(bytes);
    return mapping;
  }

  void back_by_new() {
    const std::lock_guard lock(mutex_);
    if (!is_backed_) back(make_segment(bytes_));
  }
  void back_by(Descriptor descriptor) {
    check_segment(descriptor, bytes_);
    const std::lock_guard lock(mutex_);
    if (!is_backed_)
      back(std::move(descriptor));
    else if (FileName::of(descriptor.number()) != FileName::of(descriptor_.number()))
      throw Error(ErrorKind::ProtocolError,
                  "ranks of one process were given different shared memory segments");
  }
  void close_descriptor() noexcept {
    child_view_.reset();
    descriptor_.close();
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

 private:
  void back(Descriptor descriptor) {
    if (::mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
               descriptor.number(), 0) == MAP_FAILED)
      throw no_address_space(errno, bytes_);
    ::madvise(data_, bytes_, MADV_DONTDUMP);
    descriptor_ = std::move(descriptor);
    child_view_.emplace(data_, bytes_, descriptor_.number());
    is_backed_ = true;
  }

  const std::size_t bytes_;
  const std::size_t reserved_bytes_;
  void* const reserved_;
  std::byte* data_ = nullptr;

  std::mutex mutex_;  ///< while it is being backed; what it guards stays as it is then
  Descriptor descriptor_;
  std::optional<ChildView> child_view_;
  bool is_backed_ = false;
};

SharedMemory::SharedMemory(std::shared_ptr<Mapping> mapping, std::size_t begin, std::size_t bytes) noexcept
    : mapping_(std::move(mapping)), begin_(begin), data_(mapping_->data() + begin), size_bytes_(bytes) {}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(begin_, other.begin_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
}

SharedMemory SharedMemory::create(std::size_t bytes) {
  SharedMemory memory = reserve(bytes);
  memory.back_by_new();
  return memory;
}

SharedMemory SharedMemory::map(Descriptor descriptor, std::size_t bytes) {
  SharedMemory memory = reserve(bytes);
  memory.back_by(std::move(descriptor));
  memory.mapping_->close_descriptor();
  return memory;
}

SharedMemory SharedMemory::reserve(std::size_t bytes) { return {std::make_shared<Mapping>(bytes), 0, bytes}; }

SharedMemory SharedMemory::reserve_together(const std::string& name, std::size_t bytes) {
  return {Mapping::find_or_make(name, bytes), 0, bytes};
}

void SharedMemory::back_by_new() { mapping_->back_by_new(); }

void SharedMemory::back_by(Descriptor descriptor) { mapping_->back_by(std::move(descriptor)); }

SharedMemory SharedMemory::part(std::size_t offset, std::size_t bytes) const {
  COHORT_ASSERT(offset <= size_bytes_ && bytes <= size_bytes_ - offset, "{} bytes at {} are no part of {}",
                bytes, offset, size_bytes_);
  return {mapping_, begin_ + offset, bytes};
}

int SharedMemory::descriptor() const noexcept { return mapping_ == nullptr ? -1 : mapping_->descriptor(); }

bool SharedMemory::contains(const void* address, std::size_t bytes) const noexcept {
  const auto* begin = static_cast<const std::byte*>(address);
  return data_ != nullptr && begin >= data_ && begin <= data_ + size_bytes_ &&
         bytes <= static_cast<std::size_t>(data_ + size_bytes_ - begin);
}

void SharedMemory::map_over(std::byte* address, std::size_t offset, std::size_t bytes,
                            std::optional<ChildView>& view) {
  if (::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor(),
             static_cast<off_t>(begin_ + offset)) == MAP_FAILED)
    throw system_error(errno, fmt::format("mapping {} bytes of shared memory over a buffer", bytes));
  view.emplace(address, bytes, descriptor(), begin_ + offset);
}

/// Where the kernel can (Linux 5.14) by touching pages: fallocate() lets one at a time into a segment, of all
/// ranks that have parts of it.
void SharedMemory::commit(std::size_t offset, std::size_t bytes) {
  const auto touch = [&] { return ::madvise(data_ + offset, bytes, kMadvisePopulateWrite); };
  const auto allocate = [&] {
    return ::fallocate(descriptor(), 0, static_cast<off_t>(begin_ + offset), static_cast<off_t>(bytes));
  };
  int failure = failure_of(touch);
  if (failure == EINVAL) failure = failure_of(allocate);
  if (failure != 0) throw no_memory(failure == EFAULT ? ENOMEM : failure, bytes);
}

void SharedMemory::commit_zeros(std::size_t offset, std::size_t bytes) {
  constexpr std::array<std::byte, std::size_t{16} << 10> kZeros{};
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t next = std::min(kZeros.size(), bytes - done);
    const auto at = static_cast<off_t>(begin_ + offset + done);
    const ::ssize_t written = ::pwrite(descriptor(), kZeros.data(), next, at);
    if (written < 0 && errno != EINTR) throw no_memory(errno, bytes);
    done += written < 0 ? 0 : static_cast<std::size_t>(written);
  }
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
  ::fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin_ + offset),
              static_cast<off_t>(bytes));
}

}  // namespace cohort
