// A grammar as places between characters, and ways from one to the next: what a recogniser walks.
#pragma once

#include <unicode/uniset.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/character_bytes.h"
#include "text/grammar/grammar.h"

namespace tandem {

// Immutable once made. Of its places only those from which a text can be completed count.
class GrammarProgram {
 public:
  enum class Kind : uint8_t {
    kCharacter,  // one of a class, then `next`
    kSplit,      // goes on at any of ways()
    kCall,       // a text of rule `index`, then `next`
    kEnd,        // of rule `index`; kWhole: of the text
  };
  static constexpr int32_t kWhole = -1;
  struct Place {
    Kind kind;
    bool completes = false;  // a text can be completed from here
    bool empty = false;      // kCall: the rule has the empty text
    int32_t index = 0;       // kCharacter: where its bytes begin
    int32_t next = 0;
    int32_t num_ways = 0;  // of kSplit; the first one is ways_[index]
  };

  // `writable`: characters that others are not looked for; null: all are. Throws GrammarError if it
  // is too large. Without any text start() has !completes.
  GrammarProgram(const Grammar& grammar, const icu::UnicodeSet* writable);

  const Place& place(int32_t at) const { return places_[static_cast<size_t>(at)]; }
  std::span<const int32_t> ways(const Place& split) const {
    return {ways_.data() + split.index, static_cast<size_t>(split.num_ways)};
  }
  int32_t start() const { return start_; }
  int32_t start_of(int32_t rule) const { return rule_starts_[static_cast<size_t>(rule)]; }
  const CharacterBytes& characters() const { return characters_; }
  // Bytes of one kind are never told apart.
  int num_byte_kinds() const { return num_byte_kinds_; }
  uint8_t kind_of(uint8_t byte) const { return byte_kinds_[byte]; }
  uint8_t byte_of_kind(int kind) const { return kind_bytes_[static_cast<size_t>(kind)]; }
  // Bytes of memory.
  size_t size() const;

 private:
  friend class GrammarCompiler;
  void find_completing();
  void find_empty();
  void find_byte_kinds();

  std::vector<Place> places_;
  std::vector<int32_t> ways_;
  std::vector<int32_t> rule_starts_;  // below 0: never called
  CharacterBytes characters_;
  int32_t start_ = 0;
  std::array<uint8_t, 256> byte_kinds_{};
  std::array<uint8_t, 256> kind_bytes_{};
  int num_byte_kinds_ = 1;
};

}  // namespace tandem
