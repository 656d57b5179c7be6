// The processors of transformers' logits_process.py, in the order of _get_logits_processor()
// (utils.py). vLLM's own (allowed_token_ids, logit_bias, presence and frequency penalty, min_tokens
// for stop tokens) stand beside their nearest relative. The warpers, which only sampling uses, are
// in logits_warpers.cc.
#include "runtime/sampling/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/logit_edits.h"
#include "runtime/sampling/constraint_mask.h"
#include "runtime/sampling/stop_rules.h"
#include "runtime/sampling/timestamp_rules.h"

namespace tandem {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// What processors do to a row: to one that is there, or to be done later (LogitEdits).
class DenseRow {
 public:
  explicit DenseRow(std::span<float> row) : row_(row) {}

  void add(int32_t id, float value) { edit(id, ops::LogitEdit::kAdd, value); }
  void penalise(int32_t id, float factor) { edit(id, ops::LogitEdit::kPenalise, factor); }
  void set(int32_t id, float value) { edit(id, ops::LogitEdit::kSet, value); }
  void favour(int32_t id, float factor) { edit(id, ops::LogitEdit::kFavour, factor); }
  void mask_all() { std::fill(row_.begin(), row_.end(), kMasked); }
  // ids: ascending.
  void mask_others(const auto& ids) {
    size_t begin = 0;
    for (const int32_t id : ids) {
      if (!has(id)) continue;
      const auto end = static_cast<size_t>(id);
      std::fill(row_.begin() + static_cast<long>(begin), row_.begin() + static_cast<long>(end),
                kMasked);
      begin = end + 1;
    }
    std::fill(row_.begin() + static_cast<long>(begin), row_.end(), kMasked);
  }
  bool takes_penalties(const ops::RowHistory& history, std::span<const int32_t> tokens) {
    penalise_tokens(history, tokens, row_);
    return true;
  }
  bool takes_ngrams(int n, std::span<const int32_t> tokens) {
    ops::RowHistory history;
    history.ngram_size = n;
    tandem::mask_ngrams(history, tokens, row_);
    return true;
  }
  void constrain(const SamplerSequence& seq) { mask_by_constraint(seq, row_); }
  void mask_times(const SamplerSequence& seq) {
    mask_by_timestamps(seq.params->timestamps(), seq.prompt_ids, seq.output_ids, row_);
  }
  void replace_invalid() {
    constexpr float kMax = std::numeric_limits<float>::max();
    for (float& score : row_) {
      if (std::isnan(score))
        score = 0.0f;
      else if (std::isinf(score))
        score = score > 0 ? kMax : -kMax;
    }
  }

 private:
  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < row_.size(); }
  void edit(int32_t id, ops::LogitEdit edit, float value) {
    if (!has(id)) return;
    float& x = row_[static_cast<size_t>(id)];
    x = edited(edit, x, value);
  }
  std::span<float> row_;
};

class RecordedRow {
 public:
  RecordedRow(LogitEdits& edits, int64_t size, bool history_apart)
      : edits_(edits), size_(size), history_apart_(history_apart) {}

  void add(int32_t id, float value) { put(id, ops::LogitEdit::kAdd, value); }
  void penalise(int32_t id, float factor) { put(id, ops::LogitEdit::kPenalise, factor); }
  void set(int32_t id, float value) { put(id, ops::LogitEdit::kSet, value); }
  void favour(int32_t id, float factor) { put(id, ops::LogitEdit::kFavour, factor); }
  void mask_all() {
    edits_ = {};
    edits_.masked = true;
  }
  bool takes_penalties(const ops::RowHistory& history, std::span<const int32_t>) {
    if (!history_apart_) return false;
    edits_.history.edits_before = static_cast<int32_t>(edits_.list.size());
    edits_.history.repetition = history.repetition;
    edits_.history.presence = history.presence;
    edits_.history.frequency = history.frequency;
    return true;
  }
  bool takes_ngrams(int n, std::span<const int32_t>) {
    if (history_apart_) edits_.history.ngram_size = n;
    return history_apart_;
  }
  // As the last change, though it is the first: what is -inf stays so, but for mask_all().
  void mask_others(const auto& ids) {
    std::vector<uint32_t> bits(static_cast<size_t>((size_ + 31) / 32), 0);
    for (const int32_t id : ids)
      if (id >= 0 && id < size_) bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
    allow(std::move(bits));
  }
  void constrain(const SamplerSequence& seq) { allow(constraint_bits(seq, size_)); }
  void replace_invalid() { TANDEM_CHECK(false, "of a whole row, not recorded"); }
  void mask_times(const SamplerSequence&) { TANDEM_CHECK(false, "of a whole row, not recorded"); }

 private:
  void put(int32_t id, ops::LogitEdit edit, float value) {
    if (id >= 0 && id < size_) edits_.list.push_back({id, edit, value});
  }
  void allow(std::vector<uint32_t> bits) {
    if (edits_.allowed.empty()) {
      edits_.allowed = std::move(bits);
      return;
    }
    for (size_t i = 0; i < bits.size(); ++i) edits_.allowed[i] &= bits[i];
  }
  LogitEdits& edits_;
  int64_t size_;
  bool history_apart_;
};

// The decoder sequence so far.
std::vector<int32_t> history_of(const SamplerSequence& seq) {
  std::vector<int32_t> ids(seq.prompt_ids.begin(), seq.prompt_ids.end());
  ids.insert(ids.end(), seq.output_ids.begin(), seq.output_ids.end());
  return ids;
}

int64_t decoder_length(const SamplerSequence& seq) {
  return static_cast<int64_t>(seq.prompt_ids.size() + seq.output_ids.size());
}

template <class Row>
void mask(const auto& ids, Row& row) {
  for (const int32_t id : ids) row.set(id, kMasked);
}

bool is_on(double penalty) { return penalty != 0.0 && penalty != 1.0; }

bool has_presence(const proto::SamplingParams& p) {
  return p.presence_penalty() != 0 || p.frequency_penalty() != 0;
}

bool has_penalties(const proto::SamplingParams& p) {
  return is_on(p.repetition_penalty()) || has_presence(p);
}

bool bos_is_forced(const SamplerSequence& seq) {
  return seq.params->has_forced_bos_token_id() && decoder_length(seq) == 1;
}

bool eos_is_forced(const SamplerSequence& seq) {
  return tandem::eos_is_forced(*seq.params, static_cast<int64_t>(seq.output_ids.size()) + 1);
}

bool ends_with(std::span<const int32_t> ids, std::span<const int32_t> tail) {
  return tail.size() <= ids.size() &&
         std::equal(tail.begin(), tail.end(), ids.end() - static_cast<long>(tail.size()));
}

// Biases of all sequences that the next token would complete are summed, then added.
template <class Row>
void add_biases(const proto::SamplingParams& p, std::span<const int32_t> history, Row& row) {
  std::map<int32_t, float> sums;
  for (const auto& bias : p.sequence_bias()) {
    const std::span<const int32_t> ids(bias.ids().data(), static_cast<size_t>(bias.ids_size()));
    if (!ids.empty() && ends_with(history, ids.first(ids.size() - 1)))
      sums[ids.back()] += bias.bias();
  }
  for (const auto& [id, bias] : p.logit_bias()) sums[id] += bias;
  for (const auto& [id, bias] : sums) row.add(id, bias);
}

// Once for each distinct id.
template <class Row>
void penalise_repetition(std::vector<int32_t> ids, float factor, Row& row) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) row.penalise(id, factor);
}

// vLLM's, over generated tokens: frequency counts each occurrence, presence the first one.
template <class Row>
void penalise_presence(const SamplerSequence& seq, Row& row) {
  const auto presence = static_cast<float>(seq.params->presence_penalty());
  const auto frequency = static_cast<float>(seq.params->frequency_penalty());
  std::vector<int32_t> ids(seq.output_ids.begin(), seq.output_ids.end());
  std::sort(ids.begin(), ids.end());
  for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    while (end < ids.size() && ids[end] == ids[begin]) ++end;
    row.add(ids[begin], -(frequency * static_cast<float>(end - begin)));
    row.add(ids[begin], -presence);
  }
}

// What the tokens of the sequence bring upon themselves.
template <class Row>
void penalise_history(const SamplerSequence& seq, const std::vector<int32_t>& history, Row& row) {
  const proto::SamplingParams& p = *seq.params;
  ops::RowHistory penalties;
  if (is_on(p.repetition_penalty()))
    penalties.repetition = static_cast<float>(p.repetition_penalty());
  penalties.presence = static_cast<float>(p.presence_penalty());
  penalties.frequency = static_cast<float>(p.frequency_penalty());
  penalties.first_output = static_cast<int32_t>(seq.prompt_ids.size());
  if (row.takes_penalties(penalties, history)) return;
  if (penalties.repetition != 1.0f) penalise_repetition(history, penalties.repetition, row);
  if (has_presence(p) && !seq.output_ids.empty()) penalise_presence(seq, row);
}

// Masks what would complete an n-gram of `text` after the last n - 1 tokens of the decoder
// sequence.
template <class Row>
void mask_ngrams(std::span<const int32_t> text, std::span<const int32_t> history, int n, Row& row) {
  const size_t prefix_size = static_cast<size_t>(n) - 1;
  if (history.size() < prefix_size) return;
  const auto prefix = history.last(prefix_size);
  for (size_t i = 0; i + prefix_size < text.size(); ++i)
    if (std::equal(prefix.begin(), prefix.end(), text.begin() + static_cast<long>(i)))
      row.set(text[i + prefix_size], kMasked);
}

// An EOS by itself is never a bad word.
template <class Row>
void mask_bad_words(const proto::SamplingParams& p, std::span<const int32_t> history, Row& row) {
  for (const auto& word : p.bad_words_ids()) {
    const std::span<const int32_t> ids(word.ids().data(), static_cast<size_t>(word.ids_size()));
    if (ids.empty()) continue;
    const bool is_eos =
        ids.size() == 1 && std::find(p.eos_token_id().begin(), p.eos_token_id().end(), ids[0]) !=
                               p.eos_token_id().end();
    if (!is_eos && ends_with(history, ids.first(ids.size() - 1))) row.set(ids.back(), kMasked);
  }
}

template <class Row>
void mask_early_ends(const SamplerSequence& seq, Row& row) {
  const auto generated = static_cast<int64_t>(seq.output_ids.size());
  if (generated < seq.params->min_tokens()) mask(seq.params->eos_token_id(), row);
  if (generated < seq.params->min_tokens_stop()) mask(seq.params->stop_token_ids(), row);
}

template <class Row>
void force(const auto& ids, Row& row) {
  row.mask_all();
  for (const int32_t id : ids) row.set(id, 0.0f);
}

template <class Row>
void favour_eos(const SamplerSequence& seq, Row& row) {
  const auto& decay = seq.params->exponential_decay_length_penalty();
  const int64_t over = decoder_length(seq) - decay.start_length();
  if (over <= 0) return;
  const auto factor = static_cast<float>(std::pow(decay.factor(), static_cast<double>(over)) - 1.0);
  std::vector<int32_t> ids(seq.params->eos_token_id().begin(), seq.params->eos_token_id().end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) row.favour(id, factor);
}

bool has_biases(const proto::SamplingParams& p) {
  return p.sequence_bias_size() > 0 || !p.logit_bias().empty();
}

bool begins(const SamplerSequence& seq) {
  return !seq.params->begin_suppress_tokens().empty() &&
         decoder_length(seq) == seq.params->begin_index();
}

bool too_short(const SamplerSequence& seq) {
  const auto generated = static_cast<int64_t>(seq.output_ids.size());
  return generated < std::max(seq.params->min_tokens(), seq.params->min_tokens_stop());
}

template <class Row>
void process(const SamplerSequence& seq, Row& row) {
  const proto::SamplingParams& p = *seq.params;
  const std::vector<int32_t> history = history_of(seq);
  if (!p.allowed_token_ids().empty()) row.mask_others(p.allowed_token_ids());
  if (has_biases(p)) add_biases(p, history, row);
  if (is_on(p.encoder_repetition_penalty()))
    penalise_repetition({seq.encoder_ids.begin(), seq.encoder_ids.end()},
                        static_cast<float>(1.0 / p.encoder_repetition_penalty()), row);
  if (has_penalties(p)) penalise_history(seq, history, row);
  if (const int n = p.no_repeat_ngram_size(); n > 0 && !row.takes_ngrams(n, history))
    mask_ngrams(history, history, n, row);
  if (p.encoder_no_repeat_ngram_size() > 0)
    mask_ngrams(seq.encoder_ids, history, p.encoder_no_repeat_ngram_size(), row);
  mask_bad_words(p, history, row);
  mask_early_ends(seq, row);
  if (p.has_constraint()) row.constrain(seq);
  if (bos_is_forced(seq)) force(std::initializer_list<int32_t>{p.forced_bos_token_id()}, row);
  if (eos_is_forced(seq)) force(p.forced_eos_token_id(), row);
  if (p.remove_invalid_values()) row.replace_invalid();
  if (p.has_exponential_decay_length_penalty()) favour_eos(seq, row);
  mask(p.suppress_tokens(), row);
  if (begins(seq)) mask(p.begin_suppress_tokens(), row);
  if (p.has_timestamps()) row.mask_times(seq);
}

}  // namespace

bool needs_processing(const SamplerSequence& seq) {
  const proto::SamplingParams& p = *seq.params;
  return !p.allowed_token_ids().empty() || has_biases(p) || is_on(p.encoder_repetition_penalty()) ||
         is_on(p.repetition_penalty()) || (has_presence(p) && !seq.output_ids.empty()) ||
         p.no_repeat_ngram_size() > 0 || p.encoder_no_repeat_ngram_size() > 0 ||
         p.bad_words_ids_size() > 0 || too_short(seq) || bos_is_forced(seq) || eos_is_forced(seq) ||
         p.remove_invalid_values() || p.has_exponential_decay_length_penalty() ||
         p.suppress_tokens_size() > 0 || begins(seq) || p.has_timestamps() || p.has_constraint();
}

bool changes_whole_rows(const proto::SamplingParams& p) {
  return p.remove_invalid_values() || p.has_timestamps();
}

bool reads_tokens(const proto::SamplingParams& p) {
  const auto longer = [](const auto& word) { return word.ids_size() > 1; };
  return std::any_of(p.sequence_bias().begin(), p.sequence_bias().end(), longer) ||
         std::any_of(p.bad_words_ids().begin(), p.bad_words_ids().end(), longer) ||
         p.encoder_no_repeat_ngram_size() > 0 || p.has_timestamps() || p.has_constraint();
}

bool reads_history(const proto::SamplingParams& p) {
  return p.no_repeat_ngram_size() > 0 || has_penalties(p);
}

void process_logits(const SamplerSequence& seq, std::span<float> logits) {
  DenseRow row(logits);
  process(seq, row);
}

std::optional<LogitEdits> logit_edits(const SamplerSequence& seq, int64_t vocabulary,
                                      bool history_apart) {
  if (changes_whole_rows(*seq.params)) return std::nullopt;
  LogitEdits edits;
  RecordedRow row(edits, vocabulary, history_apart);
  process(seq, row);
  edits.history.length = static_cast<int32_t>(decoder_length(seq));
  edits.history.first_output = static_cast<int32_t>(seq.prompt_ids.size());
  const auto behind = edits.list.begin() + edits.history.edits_before;
  for (const auto& [begin, end] :
       {std::pair(edits.list.begin(), behind), std::pair(behind, edits.list.end())})
    std::stable_sort(begin, end, [](const auto& a, const auto& b) { return a.id < b.id; });
  return edits;
}

size_t LogitEdits::find(int32_t id) const {
  const auto behind = list.begin() + history.edits_before;
  for (const auto& [begin, end] :
       {std::pair(list.begin(), behind), std::pair(behind, list.end())}) {
    const auto edit =
        std::lower_bound(begin, end, id, [](const auto& e, int32_t i) { return e.id < i; });
    if (edit != end && edit->id == id) return static_cast<size_t>(edit - list.begin());
  }
  return list.size();
}

}  // namespace tandem
