// Keys and values on their way between two ranks of one process that compute on one device: they
// stay in its memory (encoder_exchange.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"

namespace tandem {

// Where a rank computes.
struct DevicePlace {
  int64_t process = 0;  // no other process has this number
  int32_t device = -1;  // of this host; -1: a CPU
  bool operator==(const DevicePlace&) const = default;
};
DevicePlace device_place(int32_t device);

// Pages that a rank fills for others. Whoever holds some may read them; they are filled again once
// nobody does. Owned by the runner's thread, unless said otherwise.
class SharedPages {
 public:
  using Pages = std::shared_ptr<const KvCache>;

  // Of a device's context, which outlives it.
  SharedPages(Context& ctx, const KvCacheSpec& spec) : ctx_(ctx), spec_(spec) {}
  // What was left for others and not taken is gone.
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  // Copies blocks[i] of `from` to block i, in the stream's order: whoever reads on another stream
  // waits for this one first. Throws InputError (kResource).
  Pages copy(const KvCache& from, std::span<const int32_t> blocks);
  // Waits for what was copied.
  void synchronize();
  // Leaves pages for another rank of the process. Returns a ticket, which is not 0. Any thread.
  int64_t leave(Pages pages);
  // Takes what was left for that ticket; null: nothing (any more). Any thread.
  static Pages take(int64_t ticket);

  int sets() const { return static_cast<int>(sets_.size()); }  // of pages that there are

 private:
  struct Set {
    std::shared_ptr<const KvCache> pages;
    int blocks;
  };

  Context& ctx_;
  KvCacheSpec spec_;
  std::vector<Set> sets_;
};

}  // namespace tandem
