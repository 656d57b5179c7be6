// Sequences and groups: their counters and invariants.

#include "runtime/scheduling/sequence.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "runtime/protocol/encoder_input.h"

namespace tandem {
namespace {

// Of the numbers below 0 salts have [-256, -1], and frames begin with the lowest.
int32_t global_key(int32_t position) { return -257 - position; }
constexpr int32_t kAdapterKey = std::numeric_limits<int32_t>::min() + 1;  // its number follows
constexpr int32_t kPromptKey = kAdapterKey + 1;                           // its tokens follow
int32_t salt_key(char c) { return -1 - static_cast<unsigned char>(c); }

// Frames begin with a number that neither ids nor what follows them have.
void append_frames(const proto::EncoderFrames& frames, std::vector<int32_t>& key) {
  key.insert(key.end(), {std::numeric_limits<int32_t>::min(), frames.length(), frames.num_frames(),
                         frames.width()});
  const size_t begin = key.size(), count = static_cast<size_t>(frames.values_size());
  key.resize(begin + count);
  if (count > 0) std::memcpy(key.data() + begin, frames.values().data(), count * sizeof(float));
}

SourceKey key_of(const Sequence* sequence, const SamplingParams& params) {
  TANDEM_CHECK(sequence != nullptr);
  const Sequence& encoder = *sequence;
  std::vector<int32_t> key;
  if (encoder.frames() != nullptr) append_frames(*encoder.frames(), key);
  key.insert(key.end(), encoder.tokens().begin(), encoder.tokens().end());
  for (const int32_t at : encoder.global_positions()) key.push_back(global_key(at));
  if (params.has_adapter()) {
    const uint64_t id = params.adapter().id();
    key.insert(key.end(), {kAdapterKey, static_cast<int32_t>(id >> 31),
                           static_cast<int32_t>(id & 0x7fffffff)});
  }
  for (const char c : params.cache_salt()) key.push_back(salt_key(c));
  return SourceKey(std::move(key));
}

}  // namespace

Sequence::Sequence(int64_t seq_id, const EncoderDecoderInputs& inputs, bool from_decoder_prompt,
                   int index)
    : seq_id_(seq_id), index_(index) {
  TANDEM_CHECK_GE(index, 0);
  const auto& ids =
      from_decoder_prompt ? inputs.prompt_token_ids() : inputs.encoder_prompt_token_ids();
  tokens_.assign(ids.begin(), ids.end());
  if (!from_decoder_prompt && inputs.has_encoder_frames())
    frames_ = std::make_unique<const proto::EncoderFrames>(inputs.encoder_frames());
  if (!from_decoder_prompt)
    global_.assign(inputs.global_attention().begin(), inputs.global_attention().end());
  prompt_len_ = num_known_ =
      from_decoder_prompt ? static_cast<int>(tokens_.size()) : encoder_length(inputs);
}

std::span<const int32_t> Sequence::tokens() const {
  if (read_ != node_) {
    tokens_.resize(static_cast<size_t>(num_known_));
    tree_->read(node_, std::span(tokens_).subspan(static_cast<size_t>(prompt_len_)));
    read_ = node_;
  }
  return tokens_;
}

void Sequence::append_token(int32_t token) {
  TANDEM_CHECK_EQ(num_pending_, 0);
  TANDEM_CHECK(tree_ == nullptr, "a beam goes on with a round");
  tokens_.push_back(token);
  ++num_known_;
}

void Sequence::resolve_pending(int32_t token) {
  TANDEM_CHECK_GT(num_pending_, 0);
  TANDEM_CHECK(tree_ == nullptr, "a beam goes on with a round");
  --num_pending_;
  tokens_.push_back(token);
  ++num_known_;
}

void Sequence::go_on_behind_draft(int32_t token) {
  append_token(token);
  advance(1);
}

void Sequence::advance(int tokens) {
  num_computed_ += tokens;
  TANDEM_CHECK_LE(num_computed_, length());
}

void Sequence::continue_from(const TokenTree& tree, TokenTree::Node node, int num_computed) {
  TANDEM_CHECK_EQ(num_pending_, 0);
  tree_ = &tree;
  node_ = node;
  num_known_ = prompt_len_ + tree.length(node);
  num_computed_ = num_computed;
  TANDEM_CHECK_LE(num_computed, num_known_);
}

void Sequence::resolve_pending_from(const TokenTree& tree, TokenTree::Node node) {
  TANDEM_CHECK_GT(num_pending_, 0);
  TANDEM_CHECK_EQ(prompt_len_ + tree.length(node), num_known_ + 1);
  tree_ = &tree;
  node_ = node;
  --num_pending_;
  ++num_known_;
}

int num_sequences(const SamplingParams& params) {
  if (params.has_pooling()) return 1;
  return uses_beams(params) ? params.num_beams() : std::max(params.n(), params.best_of());
}

SequenceGroup::SequenceGroup(std::string request_id, std::vector<std::unique_ptr<Sequence>> seqs,
                             std::unique_ptr<Sequence> encoder_seq, SamplingParams params,
                             double arrival_time, int priority)
    : request_id_(std::move(request_id)),
      seqs_(std::move(seqs)),
      encoder_seq_(std::move(encoder_seq)),
      source_(key_of(encoder_seq_.get(), params)),
      prefix_(source_),
      params_(std::move(params)),
      arrival_time_(arrival_time),
      priority_(priority) {
  TANDEM_CHECK(!seqs_.empty());
  for (size_t i = 1; i < seqs_.size(); ++i)
    TANDEM_CHECK_LT(seqs_[i - 1]->index(), seqs_[i]->index());
  if (pools()) {
    TANDEM_CHECK_EQ(seqs_.size(), size_t{1});
    TANDEM_CHECK_EQ(seqs_[0]->output_len(), 0);
    TANDEM_CHECK(!pools_encoder() || seqs_[0]->length() == 0);
    return;
  }
  if (!uses_beams(params_)) return;
  TANDEM_CHECK_EQ(static_cast<int>(seqs_.size()), params_.num_beams());
  TANDEM_CHECK_EQ(seqs_.back()->index(), params_.num_beams() - 1);
  for (const auto& seq : seqs_) TANDEM_CHECK_EQ(seq->output_len(), 0);
  beams_ = std::make_unique<BeamState>(params_);
}

void SequenceGroup::take_prompt_whole() {
  has_whole_prompt_ = true;
  const auto source = source_.numbers(), prompt = seqs_.front()->prompt_tokens();
  std::vector<int32_t> key(source.begin(), source.end());
  key.push_back(kPromptKey);
  key.insert(key.end(), prompt.begin(), prompt.end());
  prefix_ = SourceKey(std::move(key));
}

std::vector<Sequence*> SequenceGroup::seqs_with(SequenceStatus status) const {
  std::vector<Sequence*> out;
  for (const auto& seq : seqs_)
    if (seq->status() == status) out.push_back(seq.get());
  return out;
}

std::vector<Sequence*> SequenceGroup::unfinished_seqs() const {
  std::vector<Sequence*> out;
  for (const auto& seq : seqs_)
    if (!seq->finished()) out.push_back(seq.get());
  return out;
}

Sequence* SequenceGroup::find(int64_t seq_id) const {
  for (const auto& seq : seqs_)
    if (seq->seq_id() == seq_id) return seq.get();
  return nullptr;
}

bool SequenceGroup::finished() const {
  return std::all_of(seqs_.begin(), seqs_.end(), [](const auto& seq) { return seq->finished(); });
}

bool SequenceGroup::has_pending_tokens() const {
  return std::any_of(seqs_.begin(), seqs_.end(),
                     [](const auto& seq) { return seq->num_pending_tokens() > 0; });
}

bool SequenceGroup::awaits_candidates() const {
  return beams_ != nullptr && std::any_of(seqs_.begin(), seqs_.end(), [&](const auto& seq) {
           return !seq->finished() && seq->num_uncomputed_tokens() == 0 &&
                  beams_->candidates[static_cast<size_t>(seq->index())].empty();
         });
}

}  // namespace tandem
