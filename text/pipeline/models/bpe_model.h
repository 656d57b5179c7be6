// Byte-pair encoding: the characters of a word are merged, pair by pair, in the order of the rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/models/vocabulary.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {

// (left id, right id) → rank of the rule and id of the result. Open addressing: the lookup is the
// inner loop of encoding.
class MergeTable {
 public:
  struct Rule {
    uint64_t pair = kEmpty;
    int32_t rank = 0, result = 0;
  };

  explicit MergeTable(size_t num_rules);
  void set(int32_t left, int32_t right, int32_t rank, int32_t result);  // the last one counts
  const Rule* find(int32_t left, int32_t right) const;                  // nullptr: no rule

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  size_t slot_of(uint64_t pair) const;

  std::vector<Rule> slots_;  // a power of two, at most half full
  int shift_;
};

class BpeModel : public VocabularyModel {
 public:
  explicit BpeModel(const JsonView& json);

  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget& budget) const override;

 private:
  friend class BpeWordEncoder;

  void read_options(const JsonView& json);
  void read_merges(const JsonView& json);
  void index_characters();
  // Id of a character (with the prefix or suffix that it has here); -1 if it is not a token.
  int32_t character_id(std::string_view character) const;
  int32_t unknown_id() const;  // throws if unk_token is not a token

  std::string file_;
  MergeTable merges_;
  std::array<int32_t, 512> character_ids_;  // of code points < 512: all that byte-level BPE has
  std::array<int32_t, 256> byte_ids_;       // of "<0x00>" … "<0xFF>"; -1: none
  std::optional<std::string> unknown_token_;
  std::string prefix_, suffix_;  // continuing_subword_prefix, end_of_word_suffix
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
  bool drops_merges_ = false;  // dropout 1
};

}  // namespace tandem
