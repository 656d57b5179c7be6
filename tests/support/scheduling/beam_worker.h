// A worker without a model, for beams: its KV memory holds hashes of whole prefixes, so that a row
// that reads another history's keys is found out, whichever sequence wrote them. What it answers is
// a function of the request and the sequence. Where it is to search beams ahead, it goes on by
// itself, as a device does: by its own scores, with tables of its own and contents that move.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/step_runner.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/token_choice.h"
#include "runtime/scheduling/scheduler.h"
#include "runtime/scheduling/sequence.h"
#include "tests/support/scheduling/immediate.h"

namespace tandem::testing_support {

constexpr int kBeamVocabulary = 14;
constexpr int32_t kBeamEos = 3;

inline proto::AddRequest beam_request(const std::string& id, int64_t first_seq_id, int encoder_len,
                                      int prompt_len, int max_tokens, int beams) {
  proto::AddRequest request;
  request.set_request_id(id);
  request.set_first_seq_id(first_seq_id);
  for (int i = 0; i < encoder_len; ++i)
    request.mutable_inputs()->add_encoder_prompt_token_ids(100 + i);
  for (int i = 0; i < prompt_len; ++i) request.mutable_inputs()->add_prompt_token_ids(20 + i);
  proto::SamplingParams& params = *request.mutable_sampling_params();
  params.set_n(1);
  params.set_num_beams(beams);
  params.set_max_tokens(max_tokens);
  params.set_length_penalty(1);
  params.add_eos_token_id(kBeamEos);
  for (int i = 0; i < beams; ++i) request.add_seqs()->set_index(i);
  return request;
}

// Log-probabilities behind `tokens`; sometimes with masked entries, or a single one that is left.
inline std::vector<float> beam_row(const std::string& request_id,
                                   const std::vector<int32_t>& tokens) {
  uint64_t hash = std::hash<std::string>()(request_id);
  for (const int32_t token : tokens) hash = (hash ^ uint64_t(token + 1)) * 0x9e3779b97f4a7c15ull;
  std::mt19937 random(static_cast<uint32_t>(hash >> 17));
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> row(kBeamVocabulary);
  double sum = 0;
  for (float& x : row) x = normal(random);
  for (const float x : row) sum += std::exp(double(x));
  for (float& x : row) x -= float(std::log(sum));
  const uint32_t kind = random() % 12;
  for (size_t i = 0; i < row.size(); ++i)
    if ((kind == 0 && i != 5) || (kind < 4 && random() % 3 == 0))
      row[i] = -std::numeric_limits<float>::infinity();
  return row;
}

class BeamWorker final : public Immediate<StepRunner> {
 public:
  explicit BeamWorker(const SchedulerConfig& config)
      : block_size_(config.block_size),
        shares_prefixes_(config.enable_prefix_caching),
        beam_vocabulary_(config.beam_vocabulary),
        table_({.block_size = config.block_size,
                .num_device_blocks = config.num_device_blocks,
                .num_host_blocks = config.num_host_blocks,
                .vocab_size = 5000,
                .searches_beams = config.beam_vocabulary > 0}),
        device_(static_cast<size_t>(config.num_device_blocks * config.block_size)),
        host_(static_cast<size_t>(config.num_host_blocks * config.block_size)) {}

  proto::StepOutput execute(const proto::StepInput& step) override {
    const auto scheduled = table_.apply(step);
    table_.check_integrity();
    for (const auto* group : scheduled) check_message(step, *group);
    move(step.swap_out(), device_, host_);
    move(step.swap_in(), host_, device_);
    move(step.copy(), device_, device_);
    const Batch batch = build_batch(scheduled, block_size_);
    EXPECT_TRUE(scheduled.empty() || !batch.rows.empty() || !batch.input.encoder_input_ids.empty())
        << "groups without anything to compute";
    proto::StepOutput out;
    out.set_step(step.step());
    for (const auto* group : scheduled) {
      out.add_outputs()->set_request_id(group->request_id);
      out.mutable_outputs()->rbegin()->set_seq_id(group->seqs[0].seq_id);
    }
    for (const SampleRow& row : batch.rows) write(row);
    for (const SampleRow& row : batch.rows) read(row);
    table_.advance(scheduled);
    for (const SampleRow& row : batch.rows)
      if (row.samples) sample(row, scheduled, out);
    for (size_t i = 0; i < scheduled.size(); ++i)
      if (scheduled[i]->beams_ahead) search(*scheduled[i], *out.mutable_outputs(int(i)));
    table_.check_integrity();
    return out;
  }

 private:
  using Memory = std::vector<uint64_t>;

  void move(const google::protobuf::RepeatedPtrField<proto::BlockCopy>& copies, const Memory& from,
            Memory& to) {
    const Memory before = from;
    std::set<int32_t> targets;
    for (const proto::BlockCopy& copy : copies)
      EXPECT_TRUE(targets.insert(copy.dst()).second) << "block " << copy.dst() << " written twice";
    for (const proto::BlockCopy& copy : copies) {
      EXPECT_FALSE(&from == &to && targets.contains(copy.src())) << "read and written";
      for (int i = 0; i < block_size_; ++i)
        to.at(size_t(copy.dst() * block_size_ + i)) =
            before.at(size_t(copy.src() * block_size_ + i));
    }
  }

  static std::vector<int32_t> tokens_of(const SampleRow& row) {
    std::vector<int32_t> tokens = row.seq().prompt;
    tokens.insert(tokens.end(), row.seq().output.begin(), row.seq().output.end());
    return tokens;
  }
  // Of every prefix, by the position of its last token.
  std::vector<uint64_t> hashes(const SampleRow& row) const {
    uint64_t hash = shares_prefixes_ ? hash_tokens(1, row.group->encoder.tokens)
                                     : std::hash<std::string>()(row.group->request_id);
    std::vector<uint64_t> out;
    for (const int32_t token : tokens_of(row)) {
      hash = (hash ^ uint64_t(token + 7)) * 0x9e3779b97f4a7c15ull;
      out.push_back(hash);
    }
    return out;
  }
  uint64_t& key(const SampleRow& row, int position) {
    return device_.at(size_t(slot_of(row.seq().blocks, position, block_size_)));
  }
  void write(const SampleRow& row) {
    const int first = row.seq().num_computed;
    const auto expected = hashes(row);
    for (int p = first; p < first + row.num_tokens; ++p) key(row, p) = expected.at(size_t(p));
  }
  void read(const SampleRow& row) {
    const int end = row.seq().num_computed + row.num_tokens;
    const auto expected = hashes(row);
    for (int p = 0; p < end; ++p)
      ASSERT_EQ(key(row, p), expected.at(size_t(p)))
          << row.group->request_id << ", beam " << row.seq_index << ", position " << p;
  }

  void sample(const SampleRow& row, const std::vector<WorkerGroup*>& scheduled,
              proto::StepOutput& out) {
    const std::string& id = row.group->request_id;
    const proto::SamplingParams& params = row.group->params;
    const std::vector<float> scores = beam_row(id, tokens_of(row));
    std::vector<int32_t> order(scores.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return scores[size_t(a)] > scores[size_t(b)]; });
    const int64_t seq_id = row.seq().seq_id;
    for (auto& group : *out.mutable_outputs()) {
      if (group.request_id() != id) continue;
      proto::SequenceOutput& answer = *group.add_samples();
      answer.set_seq_id(seq_id);
      answer.set_token_id(order[0]);
      if (!uses_beams(params)) continue;
      answer.set_token_id(0);
      order.resize(std::min(order.size(), size_t(num_beam_candidates(params))));
      for (const int32_t token : order) {
        answer.mutable_candidates()->add_token_ids(token);
        answer.mutable_candidates()->add_logprobs(scores[size_t(token)]);
      }
    }
    for (auto* group : scheduled)
      if (group == row.group && !uses_beams(params)) table_.append_token(*group, seq_id, order[0]);
  }

  // Of a group that is searched ahead, workers hear of chunks and new blocks only.
  void check_message(const proto::StepInput& step, const WorkerGroup& group) {
    EXPECT_EQ(group.beams_ahead,
              beam_vocabulary_ > 0 && searches_ahead(group.params, beam_vocabulary_));
    if (!group.beams_ahead) return;
    int rows = 0;
    std::set<int32_t> blocks;
    for (const WorkerSequence& seq : group.seqs) {
      rows += seq.num_computed + seq.chunk == seq.length();
      blocks.insert(seq.blocks.begin(), seq.blocks.end());
    }
    const bool first = group.seqs[0].output.empty();
    EXPECT_TRUE(rows == 0 || rows == (first ? 1 : int(group.seqs.size()))) << rows << " beams run";
    for (const proto::BlockCopy& copy : step.copy()) EXPECT_FALSE(blocks.contains(copy.dst()));
    for (const auto& delta : step.deltas()) {
      if (delta.request_id() != group.request_id) continue;
      for (const auto& seq : delta.seqs())
        EXPECT_FALSE(seq.has_token() || seq.has_parent_seq_id() || seq.blocks_size() > 0 ||
                     seq.replaced_blocks_size() > 0);
    }
  }

  struct Continuation {
    int parent;
    int32_t token;
    float score, own;
  };
  // Where the running beams go on, by their scores; when the search ends is for others to know.
  static std::vector<Continuation> choose(const WorkerGroup& group,
                                          const proto::SequenceGroupOutput& answer) {
    const proto::SamplingParams& params = group.params;
    const bool first = answer.samples_size() == 1;
    std::vector<Continuation> all;
    for (int b = 0; b < params.num_beams(); ++b) {
      const proto::BeamCandidates& from = answer.samples(first ? 0 : b).candidates();
      for (int i = 0; i < from.token_ids_size(); ++i)
        all.push_back({b, from.token_ids(i), from.logprobs(i) + group.seqs[size_t(b)].beam_score,
                       from.logprobs(i)});
    }
    std::sort(all.begin(), all.end(), [](const Continuation& a, const Continuation& b) {
      return std::tuple(-a.score, a.parent, -a.own, a.token) <
             std::tuple(-b.score, b.parent, -b.own, b.token);
    });
    all.resize(std::min(all.size(), size_t(num_beam_candidates(params))));
    for (Continuation& c : all) {
      if (first) c.parent = 0;
      for (const int32_t eos : params.eos_token_id())
        c.score += c.token == eos && !params.ignore_eos() ? -1e9f : 0.0f;
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    all.resize(size_t(params.num_beams()));
    return all;
  }

  // A round: full pages change tables, the contents of those that are not full move.
  void search(WorkerGroup& group, proto::SequenceGroupOutput& answer) {
    if (answer.samples().empty()) return;
    const WorkerGroup old = group;
    const Memory before = device_;
    const int computed = old.seqs[0].num_computed;
    const int full = computed / block_size_;
    const std::vector<Continuation> all = choose(old, answer);
    for (size_t i = 0; i < group.seqs.size(); ++i) {
      const auto [parent, token, score, own] = all[i];
      answer.mutable_moves()->add_parents(parent);
      answer.mutable_moves()->add_token_ids(token);
      const WorkerSequence& from = old.seqs[size_t(parent)];
      ASSERT_EQ(from.num_computed, computed);
      ASSERT_EQ(from.length(), computed);
      WorkerSequence& to = group.seqs[i];
      to.output = from.output;
      to.output.push_back(token);
      to.num_computed = computed;
      to.beam_score = score;
      for (size_t page = 0; page < size_t(full); ++page) to.blocks.at(page) = from.blocks.at(page);
      for (int slot = 0; slot < (computed % block_size_ == 0 ? 0 : block_size_); ++slot)
        device_.at(size_t(to.blocks.at(size_t(full)) * block_size_ + slot)) =
            before.at(size_t(from.blocks.at(size_t(full)) * block_size_ + slot));
    }
  }

  int block_size_;
  bool shares_prefixes_;
  int beam_vocabulary_;
  SequenceTable table_;
  Memory device_, host_;
};

}  // namespace tandem::testing_support
