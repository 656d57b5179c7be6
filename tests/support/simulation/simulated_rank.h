// The model of one simulated rank: a real SequenceTable, a KV memory, and tokens that are a pure
// function of everything that attention reads. A wrong block table, position or copy makes other
// tokens than undisturbed_output() foretells.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/sequence_output.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/step_runner.h"
#include "runtime/request/request_processor.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/immediate.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

inline constexpr int kSimulatedVocab = 259;  // FakeTokenizer's

inline uint64_t key_of(uint64_t seed, int kind, int position, int32_t token) {
  return mix(mix(seed, static_cast<uint64_t>(kind * 100'000 + position)),
             static_cast<uint64_t>(token));
}
// Keys of the encoder (kind 1) and of the decoder (kind 0) depend on the request, unless they may
// be shared with others that have the same tokens.
inline uint64_t salt_of(const SchedulerConfig& config, int kind,
                        const proto::SamplingParams& params) {
  const bool shared = kind == 1 ? config.enable_encoder_cache : config.enable_prefix_caching;
  return shared ? 0 : params.seed();
}
// Few letters, so that stop strings occur; bytes of unfinished characters, special tokens and EOS.
inline int32_t token_of(uint64_t hash, const SchedulerConfig& config, int32_t previous) {
  // Where there are drafts, most letters can be guessed.
  if (config.speculation.num_tokens > 0 && (hash >> 40) % 6 != 0) return 3 + 'a' + previous * 5 % 8;
  const auto r = static_cast<int32_t>((hash >> 7) % 48);
  switch (r) {
    case 0: return 2;
    case 1: return 3 + 0xC3;
    case 2: return 3 + 0xA9;
    case 3: return 0;
    default: return 3 + 'a' + r % 8;
  }
}

inline proto::SequenceOutput sample_of(const proto::SamplingParams& params, int64_t seq_id,
                                       int32_t token) {
  proto::SequenceOutput out;
  out.set_seq_id(seq_id);
  out.set_token_id(token);
  out.set_logprob(static_cast<float>(token % 7) * -0.5f);
  if (params.has_logprobs()) {
    auto& top = *out.mutable_logprobs()->add_top();
    top.set_token_id(token);
    top.set_logprob(out.logprob());
  }
  return out;
}

// What sequence `index` of a request is when nothing goes wrong.
inline proto::CompletionOutput undisturbed_output(const PreparedRequest& request, int index,
                                                  const Tokenizer& tokenizer,
                                                  const SchedulerConfig& config) {
  const uint64_t cross_salt = salt_of(config, 1, request.params);
  const uint64_t self_salt = salt_of(config, 0, request.params);
  proto::CompletionOutput output;
  output.set_index(index);
  const auto& ids = request.inputs.prompt_token_ids();
  const std::span<const int32_t> prompt(ids.data(), static_cast<size_t>(ids.size()));
  SequenceOutputState state(output, tokenizer, request.params, prompt);
  uint64_t hash = mix(request.params.seed(), static_cast<uint64_t>(index));
  const auto& encoder = request.inputs.encoder_prompt_token_ids();
  for (int p = 0; p < encoder.size(); ++p) hash = mix(hash, key_of(cross_salt, 1, p, encoder[p]));
  int position = 0;
  for (const int32_t token : request.inputs.prompt_token_ids())
    hash = mix(hash, key_of(self_salt, 0, position++, token));
  int32_t token = *request.inputs.prompt_token_ids().rbegin();
  while (!state.finished()) {
    token = token_of(hash, config, token);
    state.append(sample_of(request.params, 0, token));
    hash = mix(hash, key_of(self_salt, 0, position++, token));
  }
  return output;
}

// encoder: any list of token ids.
template <class Ids>
proto::Embedding undisturbed_embedding(const Ids& encoder, const proto::SamplingParams& params) {
  uint64_t hash = params.seed();
  for (const int32_t token : encoder) hash = mix(hash, static_cast<uint64_t>(token));
  proto::Embedding out;
  out.add_values(static_cast<float>(hash % 1'000'003));
  return out;
}

class SimulatedRank final : public Immediate<StepRunner> {
 public:
  explicit SimulatedRank(const SchedulerConfig& config)
      : config_(config),
        block_size_(config.block_size),
        table_({.block_size = config.block_size,
                .num_device_blocks = config.num_device_blocks,
                .num_host_blocks = config.num_host_blocks,
                .vocab_size = kSimulatedVocab,
                .max_drafts = config.speculation.num_tokens,
                .draft_model = config.speculation.draft_model}),
        device_(static_cast<size_t>(config.num_device_blocks * config.block_size)),
        host_(static_cast<size_t>(config.num_host_blocks * config.block_size)) {}

  proto::StepOutput execute(const proto::StepInput& step) override {
    const auto scheduled = table_.apply(step);
    move(step.swap_out(), device_, host_);
    move(step.swap_in(), host_, device_);
    move(step.copy(), device_, device_);
    proto::StepOutput out;
    out.set_step(step.step());
    for (auto* group : scheduled)
      for (WorkerSequence& seq : group->seqs) make_drafts(seq);
    for (auto* group : scheduled) run_group(*group, *out.add_outputs());
    table_.advance(scheduled);
    for (size_t g = 0; g < scheduled.size(); ++g) {
      int64_t last = -1;
      for (const auto& sample : out.outputs(static_cast<int>(g)).samples()) {
        if (sample.seq_id() == last)
          table_.append_behind_draft(*scheduled[g], sample.seq_id(), sample.token_id());
        else
          table_.append_token(*scheduled[g], sample.seq_id(), sample.token_id());
        last = sample.seq_id();
      }
    }
    return out;
  }
  void check_integrity() const { table_.check_integrity(); }

 private:
  using Memory = std::vector<uint64_t>;
  using Copies = google::protobuf::RepeatedPtrField<proto::BlockCopy>;

  // All copies of a list at once.
  void move(const Copies& copies, const Memory& from, Memory& to) {
    if (copies.empty()) return;
    const Memory before = from;
    for (const proto::BlockCopy& copy : copies)
      for (int i = 0; i < block_size_; ++i)
        to.at(static_cast<size_t>(copy.dst() * block_size_ + i)) =
            before.at(static_cast<size_t>(copy.src() * block_size_ + i));
  }

  // As likely tokens are; some cannot be drafted.
  static void make_drafts(WorkerSequence& seq) {
    if (seq.num_drafts == 0 || seq.seq_id % 5 == 0) return;
    seq.drafted = true;
    int32_t last = seq.token(seq.length() - 1);
    while (std::ssize(seq.drafts) < seq.num_drafts && last % 13 != 0)
      seq.drafts.push_back(last = 3 + 'a' + last * 5 % 8);
  }

  uint64_t& key_at(std::span<const int32_t> blocks, int position) {
    return device_.at(static_cast<size_t>(slot_of(blocks, position, block_size_)));
  }

  void run_group(const WorkerGroup& group, proto::SequenceGroupOutput& out) {
    const proto::SamplingParams& params = group.params;
    const std::vector<int32_t>& encoder = group.encoder.tokens;
    out.set_request_id(group.request_id);
    out.set_seq_id(group.seqs[0].seq_id);
    if (params.has_pooling()) {
      *out.mutable_embedding() = undisturbed_embedding(encoder, params);
      return;
    }
    if (group.compute_encoder)
      for (size_t p = 0; p < encoder.size(); ++p)
        key_at(group.encoder.blocks, static_cast<int>(p)) =
            key_of(salt_of(config_, 1, params), 1, static_cast<int>(p), encoder[p]);
    for (const WorkerSequence& seq : group.seqs)
      if (seq.chunk > 0) run_sequence(group, seq, out);
  }

  void run_sequence(const WorkerGroup& group, const WorkerSequence& seq,
                    proto::SequenceGroupOutput& out) {
    const proto::SamplingParams& params = group.params;
    const int prompt = static_cast<int>(seq.prompt.size());
    const int first = seq.num_computed, end = first + seq.chunk;
    for (int p = first; p < end; ++p)
      key_at(seq.blocks, p) = key_of(salt_of(config_, 0, params), 0, p, seq.token(p));
    if (params.has_prompt_logprobs() && seq.index == 0) {
      out.set_prompt_logprobs_start(first + 1);
      for (int p = first + 1; p <= end && p < prompt; ++p)
        out.add_prompt_logprobs()->add_top()->set_token_id(seq.token(p));
    }
    if (end < seq.length()) return;
    for (size_t i = 0; i < seq.drafts.size(); ++i)
      key_at(seq.blocks, end + static_cast<int>(i)) =
          key_of(salt_of(config_, 0, params), 0, end + static_cast<int>(i), seq.drafts[i]);
    uint64_t hash = mix(params.seed(), static_cast<uint64_t>(seq.index));
    for (int p = 0; p < static_cast<int>(group.encoder.tokens.size()); ++p)
      hash = mix(hash, key_at(group.encoder.blocks, p));
    for (int p = 0; p < end; ++p) hash = mix(hash, key_at(seq.blocks, p));
    int32_t token = token_of(hash, config_, seq.token(end - 1));
    auto& first_sample = *out.add_samples() = sample_of(params, seq.seq_id, token);
    if (seq.drafted)
      first_sample.mutable_drafts()->mutable_token_ids()->Add(seq.drafts.begin(), seq.drafts.end());
    for (size_t i = 0; i < seq.drafts.size() && seq.drafts[i] == token; ++i) {
      hash = mix(hash, key_at(seq.blocks, end + static_cast<int>(i)));
      token = token_of(hash, config_, token);
      *out.add_samples() = sample_of(params, seq.seq_id, token);
    }
  }

  SchedulerConfig config_;
  int block_size_;
  SequenceTable table_;
  Memory device_, host_;
};

}  // namespace tandem::testing_support
