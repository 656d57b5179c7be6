#include "models/adapters/adapter_store.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/printable.h"
#include "models/adapters/adapter.h"

namespace tandem {

void AdapterStore::add_modules_of_others(std::vector<AdaptableModule> modules) {
  std::ranges::move(modules, std::back_inserter(of_others_));
}

std::vector<AdaptableModule> AdapterStore::modules() const {
  std::vector<AdaptableModule> out = set_.modules();
  std::set<std::string> names;
  for (const AdaptableModule& module : out) names.insert(module.name);
  for (const AdaptableModule& module : of_others_)
    if (names.insert(module.name).second) out.push_back(module);
  return out;
}

void AdapterStore::load(const Source& source, bool stays) {
  TANDEM_CHECK_GT(source.id, uint64_t{0});
  try {
    Adapter adapter = Adapter::open(source.path, base_, limits_.max_rank);
    adapter.check_modules(modules());
    set_.load(source.id, adapter);
  } catch (const InputError& error) {
    throw InputError(error.kind(), "adapter " + in_quotes(source.name) + ": " + error.what(),
                     error.param());
  }
  loaded_[source.id] = {stays, uses_};
}

void AdapterStore::use(std::span<const Source> sources) {
  const uint64_t now = ++uses_;
  for (const Source& source : sources) {
    if (!has(source.id)) load(source, /*stays=*/false);
    loaded_.at(source.id).last_use = now;
  }
  if (!sources.empty()) make_room(now);
}

void AdapterStore::make_room(uint64_t now) {
  std::vector<std::pair<uint64_t, uint64_t>> idle;  // last use, id
  for (const auto& [id, loaded] : loaded_)
    if (!loaded.stays && loaded.last_use != now) idle.emplace_back(loaded.last_use, id);
  std::ranges::sort(idle);
  const auto too_many = static_cast<int64_t>(idle.size()) - limits_.max_adapters;
  for (int64_t i = 0; i < too_many; ++i) {
    const uint64_t id = idle[static_cast<size_t>(i)].second;
    set_.drop(id);
    loaded_.erase(id);
  }
}

}  // namespace tandem
