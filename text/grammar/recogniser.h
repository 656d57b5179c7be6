// Walks a grammar byte by byte. What has been read so far is a state, a number; states and the ways
// between them are made when they are first needed, and kept. Earley's algorithm over states that
// are the same if they mean the same: a grammar without recursion becomes its DFA, one with
// recursion a pushdown automaton whose stacks share what they have in common.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar_program.h"

namespace tandem {

// One thread. `program` outlives it, and has a text. Before the first use: clear().
class Recogniser {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text begins so

  explicit Recogniser(const GrammarProgram& program);

  // Steps of work that the next calls may take together, after which they throw a GrammarError.
  void set_budget(int64_t steps) { budget_ = steps; }
  // Forgets all states.
  void clear();

  State start() const { return start_; }
  State next(State state, uint8_t byte);
  // What was read is a whole text.
  bool accepts(State state) const { return states_[static_cast<size_t>(state)].accepts; }
  size_t num_states() const { return states_.size(); }
  // Bytes of memory, about.
  size_t size() const { return bytes_; }

 private:
  static constexpr int32_t kHere = -1;  // an origin: the state that the item is of
  static constexpr int32_t kNone = -2;  // of the root, which nobody called
  // A place, in a call that was made in `origin`.
  struct Item {
    int32_t place;
    int32_t origin;
    int32_t within;  // in a character, behind some of its bytes; below 0: between two
    auto operator<=>(const Item&) const = default;
  };
  struct StateData {
    size_t first = 0;  // in items_
    int32_t count = 0;
    bool accepts = false;
    int64_t next = -1;  // first of its ways in ways_
  };
  // What the items of a new state lead to; each is seen once.
  class Items {
   public:
    void clear();
    void add(const Item& item);
    std::vector<Item> list;

   private:
    void grow();
    std::vector<uint32_t> slots_;  // of `list`, plus one
  };

  std::span<const Item> items_of(State state) const {
    const StateData& s = states_[static_cast<size_t>(state)];
    return {items_.data() + s.first, static_cast<size_t>(s.count)};
  }
  void spend(int64_t steps);
  void go_to(const Item& item);
  State close();
  State intern(std::vector<Item>& kept, bool accepts);

  const GrammarProgram& program_;
  int64_t budget_;
  State start_ = kDead;
  std::vector<StateData> states_;
  std::vector<Item> items_;
  std::vector<State> ways_;  // kUnknown, or where each kind of byte leads
  std::unordered_multimap<uint64_t, State> known_;
  size_t bytes_ = 0;
  Items todo_;
  std::vector<Item> kept_;
};

}  // namespace tandem
