#include "runtime/execution/ranks/staged_pages.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "runtime/execution/kv_cache.h"

namespace tandem {

const KvCache& StagedPages::room(int blocks, int block_size) {
  wait();
  if (blocks > blocks_) {
    pages_ = make_host_pages(ctx_, spec_, block_size, blocks);
    blocks_ = blocks;
  }
  return pages_;
}

// Marks that are too old to be queried are not waited for by themselves.
void StagedPages::wait() {
  if (!used_) return;
  DeviceBackend& backend = ctx_.backend();
  if (backend.mark() - *used_ < DeviceBackend::kMarksKept)
    backend.wait(*used_);
  else
    backend.synchronize();
  used_.reset();
}

const KvCache& StagedPages::copy_out(const KvCache& from, std::span<const int32_t> blocks) {
  if (blocks.empty()) return pages_;
  room(*std::max_element(blocks.begin(), blocks.end()) + 1, from.block_size);
  std::vector<int32_t> pairs;
  for (const int32_t block : blocks) pairs.insert(pairs.end(), {block, block});
  copy_pages(ctx_, from, pages_, pairs);
  ctx_.backend().synchronize();
  return pages_;
}

void StagedPages::copy_in(const KvCache& to, std::span<const int32_t> blocks) {
  if (blocks.empty()) return;
  TANDEM_CHECK(std::ssize(blocks) <= blocks_);
  std::vector<int32_t> pairs;
  for (const int32_t block : blocks)
    pairs.insert(pairs.end(), {static_cast<int32_t>(pairs.size() / 2), block});
  copy_pages(ctx_, pages_, to, pairs);
  used_ = ctx_.backend().mark();
}

}  // namespace tandem
