// BPE as the tokenizers library defines it: of all pairs that a rule applies to, the one with the
// lowest rank is merged first, and of these the leftmost. A heap keeps words of any length at
// O(n log n); a cache, private to one encode() call, spares repeated words the work.
#include "text/pipeline/models/bpe_model.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"

namespace tandem {

namespace {

constexpr size_t kMaxAffixBytes = 1024;  // characters of texts are looked up with them

}  // namespace

MergeTable::MergeTable(size_t num_rules) : slots_(std::bit_ceil(2 * num_rules + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_);
  while (slots_[slot].pair != pair && slots_[slot].pair != kEmpty)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::set(int32_t left, int32_t right, int32_t rank, int32_t result) {
  const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  slots_[slot_of(pair)] = {pair, rank, result};
}

const MergeTable::Rule* MergeTable::find(int32_t left, int32_t right) const {
  const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  const Rule& rule = slots_[slot_of(pair)];
  return rule.pair == kEmpty ? nullptr : &rule;
}

// Scratch and cache of one encode() call.
class BpeWordEncoder : public WordEncoder {
 public:
  BpeWordEncoder(const BpeModel& model, GrowthBudget& budget) : model_(model), budget_(budget) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) override;

 private:
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // positions, -1: none
  };
  struct Candidate {  // at the time it was queued; it may be outdated
    int32_t rank, position, result;
    bool operator<(const Candidate& other) const {  // for a heap whose front is the first to merge
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  struct Cached {
    uint32_t offset, length;  // in cached_ids_
  };
  static constexpr size_t kMaxCachedWords = 8192, kMaxCachedBytes = 256;
  static constexpr int32_t kMerged = -1;  // id of a symbol that was merged into its left neighbour

  void add_symbols(std::string_view word);
  bool add_bytes(std::string_view character);
  void add(int32_t id);
  void queue(int32_t position);
  void merge(const Candidate& candidate);

  const BpeModel& model_;
  GrowthBudget& budget_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };
  std::unordered_map<std::string, Cached, Hash, std::equal_to<>> cache_;
  std::vector<int32_t> cached_ids_;
};

void BpeWordEncoder::encode(std::string_view word, std::vector<int32_t>& ids) {
  if (word.empty()) return;
  if (model_.ignore_merges_) {
    if (const auto id = model_.vocabulary_.find(word)) return ids.push_back(*id);
  }
  const bool cacheable = word.size() <= kMaxCachedBytes;
  if (cacheable) {
    if (const auto found = cache_.find(word); found != cache_.end()) {
      budget_.spend(word.size(), found->second.length);
      const auto from = cached_ids_.begin() + found->second.offset;
      ids.insert(ids.end(), from, from + found->second.length);
      return;
    }
  }
  add_symbols(word);
  heap_.clear();
  for (size_t i = 0; i + 1 < symbols_.size(); ++i) queue(static_cast<int32_t>(i));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    merge(candidate);
  }
  const size_t first = ids.size();
  for (const Symbol& symbol : symbols_)
    if (symbol.id != kMerged) ids.push_back(symbol.id);
  budget_.spend(word.size(), ids.size() - first);
  if (cacheable && cache_.size() < kMaxCachedWords) {
    cache_.emplace(word, Cached{static_cast<uint32_t>(cached_ids_.size()),
                                static_cast<uint32_t>(ids.size() - first)});
    cached_ids_.insert(cached_ids_.end(), ids.begin() + static_cast<ptrdiff_t>(first), ids.end());
  }
}

// Characters that are no token become their bytes (byte_fallback), else unk_token, else nothing.
// An unknown token is added only when the next known character or the end comes, even behind bytes
// that stand after it in the text: so does the library.
void BpeWordEncoder::add_symbols(std::string_view word) {
  symbols_.clear();
  int32_t unknown = -1;
  for (size_t at = 0; at < word.size();) {
    const auto length = static_cast<size_t>(code_point_at(word, at).length);
    std::string_view character = word.substr(at, length);
    std::string affixed;
    const bool prefixed = at > 0 && !model_.prefix_.empty();
    const bool suffixed = at + length == word.size() && !model_.suffix_.empty();
    if (prefixed || suffixed) {
      if (prefixed) affixed = model_.prefix_;
      affixed += character;
      if (suffixed) affixed += model_.suffix_;
      character = affixed;
    }
    const int32_t id = model_.character_id(character);
    at += length;
    if (id >= 0) {
      if (unknown >= 0) add(unknown);
      unknown = -1;
      add(id);
    } else if (model_.byte_fallback_ && add_bytes(character)) {
      budget_.check(word.size(), symbols_.size());  // a prefix may have many bytes
    } else if (model_.unknown_token_) {
      if (unknown >= 0 && !model_.fuse_unknown_) add(unknown);
      unknown = model_.unknown_id();
    }
  }
  if (unknown >= 0) add(unknown);
}

bool BpeWordEncoder::add_bytes(std::string_view character) {
  const auto id_of = [&](char byte) { return model_.byte_ids_[static_cast<uint8_t>(byte)]; };
  for (const char byte : character)
    if (id_of(byte) < 0) return false;
  for (const char byte : character) add(id_of(byte));
  return true;
}

void BpeWordEncoder::add(int32_t id) {
  const auto position = static_cast<int32_t>(symbols_.size());
  if (position > 0) symbols_.back().next = position;
  symbols_.push_back({id, position - 1, -1});
}

void BpeWordEncoder::queue(int32_t position) {
  const Symbol& left = symbols_[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const Symbol& right = symbols_[static_cast<size_t>(left.next)];
  if (const MergeTable::Rule* rule = model_.merges_.find(left.id, right.id)) {
    heap_.push_back({rule->rank, position, rule->result});
    std::push_heap(heap_.begin(), heap_.end());
  }
}

void BpeWordEncoder::merge(const Candidate& candidate) {
  Symbol& left = symbols_[static_cast<size_t>(candidate.position)];
  if (left.id == kMerged || left.next < 0) return;
  Symbol& right = symbols_[static_cast<size_t>(left.next)];
  const MergeTable::Rule* rule = model_.merges_.find(left.id, right.id);
  if (!rule || rule->result != candidate.result) return;  // outdated
  left.id = candidate.result;
  left.next = right.next;
  right.id = kMerged;
  if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = candidate.position;
  if (left.previous >= 0) queue(left.previous);
  queue(candidate.position);
}

BpeModel::BpeModel(const JsonView& json)
    : VocabularyModel(json.at("vocab")), file_(json.file()), merges_(json.at("merges").size()) {
  read_options(json);
  read_merges(json.at("merges"));
  index_characters();
}

std::unique_ptr<WordEncoder> BpeModel::word_encoder(GrowthBudget& budget) const {
  return std::make_unique<BpeWordEncoder>(*this, budget);
}

void BpeModel::read_options(const JsonView& json) {
  if (const auto dropout = json.find("dropout")) {
    if (!dropout->value().is_number()) dropout->fail("expected a number");
    const double share = dropout->value().get<double>();
    if (!(share >= 0 && share <= 1)) dropout->fail("expected a number from 0 to 1");
    if (share != 0 && share != 1) dropout->fail_unsupported("encoding at random is not supported");
    drops_merges_ = share == 1;
  }
  if (const auto token = json.find("unk_token")) unknown_token_ = token->string();
  const auto read_affix = [&](const char* key, std::string& affix) {
    const auto value = json.find(key);
    if (!value) return;
    affix = value->string();
    if (affix.size() > kMaxAffixBytes)
      value->fail("longer than " + std::to_string(kMaxAffixBytes) + " bytes");
  };
  read_affix("continuing_subword_prefix", prefix_);
  read_affix("end_of_word_suffix", suffix_);
  if (const auto flag = json.find("fuse_unk")) fuse_unknown_ = flag->boolean();
  if (const auto flag = json.find("byte_fallback")) byte_fallback_ = flag->boolean();
  if (const auto flag = json.find("ignore_merges"))
    ignore_merges_ = flag->boolean() && !drops_merges_;
}

// "a b" or ["a", "b"]; the rank is the position.
void BpeModel::read_merges(const JsonView& json) {
  const nlohmann::json& merges = json.value();
  std::string left, right;
  int32_t rank = 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    const nlohmann::json& merge = merges[i];
    if (merge.is_string()) {
      const std::string& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        json.at(i).fail("expected two tokens and a space between them, found " + in_quotes(text));
      left.assign(text, 0, space);
      right.assign(text, space + 1);
    } else {
      const JsonView pair = json.at(i);
      if (pair.size() != 2) pair.fail("expected two tokens");
      left = pair.at(size_t{0}).string();
      right = pair.at(size_t{1}).string();
    }
    if (right.size() < prefix_.size())
      json.at(i).fail(in_quotes(right) + " is shorter than continuing_subword_prefix");
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary_.find(token);
      if (!id) json.at(i).fail(in_quotes(token) + " is not in the vocabulary");
      return *id;
    };
    const int32_t left_id = id_of(left), right_id = id_of(right);
    const int32_t merged = id_of(left + right.substr(prefix_.size()));
    if (!drops_merges_) merges_.set(left_id, right_id, rank++, merged);
  }
}

void BpeModel::index_characters() {
  for (size_t c = 0; c < character_ids_.size(); ++c) {
    std::string character;
    append_utf8(static_cast<char32_t>(c), character);
    character_ids_[c] = vocabulary_.find(character).value_or(-1);
  }
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const std::string token{'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    byte_ids_[byte] = vocabulary_.find(token).value_or(-1);
  }
}

int32_t BpeModel::character_id(std::string_view character) const {
  const CodePoint first = code_point_at(character, 0);
  if (first.value < character_ids_.size() && static_cast<size_t>(first.length) == character.size())
    return character_ids_[first.value];
  return vocabulary_.find(character).value_or(-1);
}

int32_t BpeModel::unknown_id() const {
  const auto id = vocabulary_.find(*unknown_token_);
  if (!id)
    throw invalid_model(file_, "model.unk_token: " + in_quotes(*unknown_token_) +
                                   " is needed but is not in the vocabulary");
  return *id;
}

}  // namespace tandem
