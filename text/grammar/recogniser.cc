#include "text/grammar/recogniser.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

using Kind = GrammarProgram::Kind;
constexpr int32_t kUnknown = -2;
constexpr size_t kFewSlots = 64;
constexpr size_t kMaxItems = 20000;  // of a state

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

}  // namespace

Recogniser::Recogniser(const GrammarProgram& program)
    : program_(program), budget_(std::numeric_limits<int64_t>::max()) {
  TANDEM_CHECK(program.place(program.start()).completes, "a grammar without a text");
}

void Recogniser::clear() {
  states_.clear();
  items_.clear();
  ways_.clear();
  known_.clear();
  bytes_ = 0;
  todo_.clear();
  go_to({program_.start(), kNone, -1});
  start_ = close();
}

void Recogniser::Items::clear() {
  list.clear();
  slots_.assign(kFewSlots, 0);
}

void Recogniser::Items::grow() {
  slots_.assign(std::max(kFewSlots, slots_.size() * 2), 0);
  std::vector<Item> all;
  all.swap(list);
  for (const Item& item : all) add(item);
}

void Recogniser::Items::add(const Item& item) {
  if (list.size() * 2 >= slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  uint64_t hash =
      mixed(mixed(static_cast<uint32_t>(item.place), static_cast<uint32_t>(item.origin)),
            static_cast<uint32_t>(item.within));
  for (size_t at = (hash >> 20) & mask;; at = (at + 1) & mask) {
    if (slots_[at] == 0) {
      list.push_back(item);
      slots_[at] = static_cast<uint32_t>(list.size());
      return;
    }
    if (list[slots_[at] - 1] == item) return;
  }
}

void Recogniser::spend(int64_t steps) {
  budget_ -= steps;
  if (budget_ < 0) throw grammar_explodes("it takes too long to follow");
}

void Recogniser::go_to(const Item& item) {
  if (program_.place(item.place).completes) todo_.add(item);
}

// Of the items in todo_ and all that they lead to without reading, those that read or wait.
Recogniser::State Recogniser::close() {
  kept_.clear();
  bool accepts = false;
  for (size_t i = 0; i < todo_.list.size(); ++i) {
    spend(1);
    if (todo_.list.size() > kMaxItems) throw grammar_explodes("too many places at once");
    const Item item = todo_.list[i];
    const GrammarProgram::Place& place = program_.place(item.place);
    if (item.within >= 0) {
      kept_.push_back(item);
      continue;
    }
    switch (place.kind) {
      case Kind::kCharacter: kept_.push_back(item); break;
      case Kind::kSplit:
        for (const int32_t way : program_.ways(place)) go_to({way, item.origin, -1});
        break;
      case Kind::kCall:
        kept_.push_back(item);
        go_to({program_.start_of(place.index), kHere, -1});
        if (place.empty) go_to({place.next, item.origin, -1});
        break;
      case Kind::kEnd:
        if (place.index == GrammarProgram::kWhole) accepts = true;
        if (item.origin < 0) break;  // of the empty text: whoever calls has gone on already
        spend(states_[static_cast<size_t>(item.origin)].count);
        for (const Item& caller : items_of(item.origin)) {
          const GrammarProgram::Place& call = program_.place(caller.place);
          if (call.kind == Kind::kCall && call.index == place.index)
            go_to({call.next, caller.origin == kHere ? item.origin : caller.origin, -1});
        }
        break;
    }
  }
  if (kept_.empty() && !accepts) return kDead;
  return intern(kept_, accepts);
}

Recogniser::State Recogniser::intern(std::vector<Item>& kept, bool accepts) {
  std::sort(kept.begin(), kept.end());
  uint64_t hash = accepts ? 1 : 0;
  for (const Item& item : kept)
    hash = mixed(
        mixed(hash, static_cast<uint32_t>(item.place)),
        (uint64_t{static_cast<uint32_t>(item.origin)} << 32) | static_cast<uint32_t>(item.within));
  const auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const auto same = items_of(it->second);
    if (this->accepts(it->second) == accepts &&
        std::equal(same.begin(), same.end(), kept.begin(), kept.end()))
      return it->second;
  }
  const auto state = static_cast<State>(states_.size());
  states_.push_back({items_.size(), static_cast<int32_t>(kept.size()), accepts, -1});
  items_.insert(items_.end(), kept.begin(), kept.end());
  known_.emplace(hash, state);
  bytes_ += kept.size() * sizeof(Item) + sizeof(StateData) + 64;
  return state;
}

Recogniser::State Recogniser::next(State state, uint8_t byte) {
  const auto kinds = static_cast<size_t>(program_.num_byte_kinds());
  StateData& from = states_[static_cast<size_t>(state)];
  if (from.next < 0) {
    from.next = static_cast<int64_t>(ways_.size());
    ways_.resize(ways_.size() + kinds, kUnknown);
    bytes_ += kinds * sizeof(State);
    spend(static_cast<int64_t>(kinds) / 4);
  }
  const auto way = static_cast<size_t>(from.next) + program_.kind_of(byte);
  if (ways_[way] != kUnknown) return ways_[way];
  spend(from.count);
  todo_.clear();
  const CharacterBytes& characters = program_.characters();
  for (const Item& item : items_of(state)) {
    const GrammarProgram::Place& place = program_.place(item.place);
    if (place.kind != Kind::kCharacter) continue;
    const int32_t within = characters.next(item.within < 0 ? place.index : item.within, byte);
    if (within == CharacterBytes::kNowhere) continue;
    const int32_t origin = item.origin == kHere ? state : item.origin;
    if (within == CharacterBytes::kComplete)
      go_to({place.next, origin, -1});
    else
      go_to({item.place, origin, within});
  }
  const State to = todo_.list.empty() ? kDead : close();
  ways_[way] = to;
  return to;
}

}  // namespace tandem
