// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/undumped_block.h>

#include <cohort/engine/error.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <vector>

namespace cohort {
namespace {

/// Blocks that nobody has, in pages of their own. Never destroyed: static objects may hold blocks to the end.
class Pool {
 public:
  static Pool& instance() {
    static Pool& only = *new Pool;
    return only;
  }

  std::byte* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add_page();
    std::byte* const block = free_.back();
    free_.pop_back();
    return block;
  }

  void give_back(std::byte* block) noexcept {
    ::explicit_bzero(block, UndumpedBlock::kBytes);
    const std::lock_guard lock(mutex_);
    free_.push_back(block);  // has room: for all blocks there are
  }

 private:
  void add_page() {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t blocks = page / UndumpedBlock::kBytes;
    free_.reserve(blocks_ + blocks);
    void* const memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw system_error(errno, "taking memory for a key");
    ::madvise(memory, page, MADV_DONTDUMP);  // known since Linux 3.4
    blocks_ += blocks;
    for (std::size_t i = blocks; i-- > 0;)
      free_.push_back(static_cast<std::byte*>(memory) + i * UndumpedBlock::kBytes);
  }

  std::mutex mutex_;
  std::vector<std::byte*> free_;
  std::size_t blocks_ = 0;
};

}  // namespace

UndumpedBlock& UndumpedBlock::operator=(UndumpedBlock&& other) noexcept {
  if (this == &other) return *this;
  release();
  bytes_ = std::exchange(other.bytes_, nullptr);
  return *this;
}

UndumpedBlock UndumpedBlock::take() {
  UndumpedBlock block;
  block.bytes_ = Pool::instance().take();
  return block;
}

void UndumpedBlock::release() noexcept {
  if (std::byte* const bytes = std::exchange(bytes_, nullptr)) Pool::instance().give_back(bytes);
}

}  // namespace cohort
