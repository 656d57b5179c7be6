#include "runtime/execution/ranks/shared_pages.h"

#include <algorithm>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "runtime/execution/kv_cache.h"

namespace tandem {
namespace {

// Of all ranks of the process.
struct Left {
  struct Entry {
    const SharedPages* from;
    SharedPages::Pages pages;
  };
  Mutex mutex;
  int64_t last_ticket GUARDED_BY(mutex) = 0;
  std::unordered_map<int64_t, Entry> entries GUARDED_BY(mutex);
};

Left& left() {
  static Left all;
  return all;
}

}  // namespace

DevicePlace device_place(int32_t device) {
  static const int64_t process = [] {
    std::random_device random;
    return static_cast<int64_t>(uint64_t{random()} << 32 | random());
  }();
  return {process, device};
}

SharedPages::~SharedPages() {
  Left& all = left();
  const MutexLock lock(all.mutex);
  std::erase_if(all.entries, [this](const auto& entry) { return entry.second.from == this; });
}

SharedPages::Pages SharedPages::copy(const KvCache& from, std::span<const int32_t> blocks) {
  const auto count = static_cast<int>(blocks.size());
  // (Nobody but this list holds it, and nobody else can come to hold it.)
  auto set = std::find_if(sets_.begin(), sets_.end(), [&](const Set& one) {
    return one.blocks >= count && one.pages.use_count() == 1;
  });
  if (set == sets_.end()) {
    // Those that are too small go as they become free.
    std::erase_if(sets_,
                  [&](const Set& one) { return one.blocks < count && one.pages.use_count() == 1; });
    sets_.push_back(
        {std::make_shared<KvCache>(make_device_pages(ctx_, spec_, from.block_size, count)), count});
    set = std::prev(sets_.end());
  }
  std::vector<int32_t> pairs;
  for (int32_t i = 0; i < count; ++i)
    pairs.insert(pairs.end(), {blocks[static_cast<size_t>(i)], i});
  if (count > 0) copy_pages(ctx_, from, *set->pages, pairs);
  return set->pages;
}

void SharedPages::synchronize() { ctx_.backend().synchronize(); }

int64_t SharedPages::leave(Pages pages) {
  Left& all = left();
  const MutexLock lock(all.mutex);
  const int64_t ticket = ++all.last_ticket;
  all.entries.emplace(ticket, Left::Entry{this, std::move(pages)});
  return ticket;
}

SharedPages::Pages SharedPages::take(int64_t ticket) {
  Left& all = left();
  const MutexLock lock(all.mutex);
  const auto entry = all.entries.find(ticket);
  if (entry == all.entries.end()) return nullptr;
  Pages pages = std::move(entry->second.pages);
  all.entries.erase(entry);
  return pages;
}

}  // namespace tandem
