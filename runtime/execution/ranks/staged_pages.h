// Pages in host memory that a device reaches, on the way between its pages and other ranks
// (encoder_exchange.h). Owned by the runner's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/model.h"

namespace tandem {

class StagedPages {
 public:
  // Of a device's context, which outlives it.
  StagedPages(Context& ctx, const KvCacheSpec& spec) : ctx_(ctx), spec_(spec) {}

  // Pages of so many blocks at least, whose contents the device does not need any more: waits until
  // it has copied what was staged before. Throws InputError (kResource).
  const KvCache& room(int blocks, int block_size);
  // Copies those blocks from a device's pages to staged ones of the same numbers, and waits.
  const KvCache& copy_out(const KvCache& from, std::span<const int32_t> blocks);
  // Copies staged block i to blocks[i] of a device's pages, in the stream's order.
  void copy_in(const KvCache& to, std::span<const int32_t> blocks);

 private:
  void wait();

  Context& ctx_;
  KvCacheSpec spec_;
  KvCache pages_;
  int blocks_ = 0;                // of pages_
  std::optional<uint64_t> used_;  // the mark behind the last copy_in(), until it is reached
};

}  // namespace tandem
