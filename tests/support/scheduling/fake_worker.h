// A worker without a model. Its KV memory holds tags that say whose key lies in a slot. So every
// key that attention would read is checked, after copies, swaps and preemption.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/step_runner.h"
#include "runtime/scheduling/scheduler.h"
#include "runtime/scheduling/sequence.h"
#include "tests/support/scheduling/immediate.h"
#include "tests/support/scheduling/sampled_tokens.h"

namespace tandem::testing_support {

// The key of token `token` at `position`. owner: what it depends on besides. With a cache: the
// source's tokens and those of the prefix. Without: the sequence, so that a read of what another
// sequence wrote is found. (The encoder's sequence has an id of its own.)
struct KvTag {
  uint64_t owner = 0;
  int32_t position = -1;
  int32_t token = -1;
  bool operator==(const KvTag&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const KvTag& tag) {
  return out << "(owner " << tag.owner << ", position " << tag.position << ", token " << tag.token
             << ")";
}

class FakeWorker final : public Immediate<StepRunner> {
 public:
  // What the test knows of the sequences, by id, encoders included: all their tokens.
  using Truth = std::map<int64_t, std::vector<int32_t>>;
  // Blocks in use after schedule(); the rest of the memory is made unreadable.
  struct LiveBlocks {
    std::set<int32_t> device, host;
  };
  // Those of these requests, as far as they are there, and what is cached.
  static LiveBlocks live_blocks(Scheduler& scheduler, const std::set<std::string>& request_ids) {
    LiveBlocks live;
    const BlockManager& blocks = scheduler.block_manager();
    for (const std::string& id : request_ids) {
      const SequenceGroup* group = scheduler.find(id);
      if (group == nullptr) continue;
      auto& pool = blocks.tables().on_host(*group) ? live.host : live.device;
      const auto add = [&](const Blocks& table) { pool.insert(table.begin(), table.end()); };
      if (blocks.tables().has_cross(*group)) add(blocks.tables().cross(*group));
      for (const auto& seq : group->seqs())
        if (blocks.tables().has_self(*seq)) add(blocks.tables().self(*seq));
    }
    for (int32_t block = 0; block < blocks.device().num_total(); ++block)
      if (blocks.pools().device().cached(block)) live.device.insert(block);
    return live;
  }

  FakeWorker(const SchedulerConfig& config, uint32_t seed)
      : block_size_(config.block_size),
        shares_sources_(config.enable_encoder_cache),
        shares_prefixes_(config.enable_prefix_caching),
        repeats_(config.speculation.num_tokens > 0),
        table_({.block_size = config.block_size,
                .num_device_blocks = config.num_device_blocks,
                .num_host_blocks = config.num_host_blocks,
                .max_drafts = config.speculation.num_tokens,
                .draft_model = config.speculation.draft_model,
                .whole_prompts = config.whole_prompts}),
        device_(static_cast<size_t>(config.num_device_blocks * config.block_size)),
        host_(static_cast<size_t>(config.num_host_blocks * config.block_size)),
        seed_(seed) {}

  // What it samples behind `previous` at `position`. It depends on the request and the sequence's
  // place in it alone. So steps may be cut anywhere, and a new worker may take over.
  // repeats: mostly what followed the same token before, so that drafts are right.
  static int32_t token_of(uint32_t seed, const std::string& request_id, int index, int position,
                          int32_t previous, bool repeats) {
    const auto hash = [&](std::initializer_list<int> parts) {
      uint64_t x = std::hash<std::string>()(request_id) + seed;
      for (const int part : parts) {
        x = (x ^ static_cast<uint32_t>(part)) * 0x9e3779b97f4a7c15ull;
        x ^= x >> 31;
      }
      return x;
    };
    const uint64_t x = hash({index, position, previous});
    if (!repeats || x % 16 == 0) return static_cast<int32_t>(x / 16 % 1000);
    return static_cast<int32_t>(1 + hash({previous}) % 20);
  }

  // What the next step is checked against; they must outlive it.
  void expect(const Truth& truth, const LiveBlocks& live) {
    truth_ = &truth;
    live_ = &live;
  }
  // Does what tandem.proto says, in its order; answers with token_of() for each sampled row.
  proto::StepOutput execute(const proto::StepInput& step) override {
    const auto scheduled = table_.apply(step);
    table_.check_integrity();
    for (const proto::EncoderTake& take : step.takes()) write_taken(take);
    move(step.swap_out(), device_, host_);
    poison(device_, live_->device);
    move(step.swap_in(), host_, device_);
    poison(host_, live_->host);
    move(step.copy(), device_, device_);
    make_drafts(scheduled);
    const Batch batch = build_batch(scheduled, block_size_);
    write_encoders(scheduled, batch);
    write_decoders(batch);
    check_reads(batch, *truth_);
    sampled_ = sample(scheduled, batch);
    return answer_of(step.step(), sampled_, pooled_);
  }

  // What the step that was run last has sampled, and pooled.
  const std::vector<SampledToken>& sampled() const { return sampled_; }
  const std::vector<PooledSequence>& pooled() const { return pooled_; }
  const SequenceTable& table() const { return table_; }

 private:
  // Mostly right, not always as many as asked for; now and then the draft model cannot.
  void make_drafts(const std::vector<WorkerGroup*>& scheduled) {
    for (WorkerGroup* group : scheduled)
      for (WorkerSequence& seq : group->seqs) {
        if (seq.num_drafts == 0 || hash_mix(seed_, static_cast<uint64_t>(seq.seq_id)) % 8 == 0)
          continue;
        seq.drafted = true;
        int32_t last = seq.token(seq.length() - 1);
        for (int p = seq.length() - 1; std::ssize(seq.drafts) < seq.num_drafts; ++p) {
          last = token_of(seed_, group->request_id, seq.index, p, last, repeats_);
          if (last % 11 == 0) break;
          seq.drafts.push_back(last % 7 == 0 ? last + 1 : last);
          last = seq.drafts.back();
        }
      }
  }

  using Memory = std::vector<KvTag>;
  using Copies = google::protobuf::RepeatedPtrField<proto::BlockCopy>;

  // All copies of a list at once, as a device may do them: no block is written twice, or written
  // and read.
  void move(const Copies& copies, const Memory& from, Memory& to) {
    const Memory before = from;
    std::set<int32_t> sources, targets;
    for (const proto::BlockCopy& copy : copies) {
      sources.insert(copy.src());
      EXPECT_TRUE(targets.insert(copy.dst()).second) << "block " << copy.dst() << " written twice";
    }
    for (const proto::BlockCopy& copy : copies) {
      EXPECT_FALSE(&from == &to && sources.contains(copy.dst()));
      for (int i = 0; i < block_size_; ++i)
        to.at(slot(copy.dst(), i)) = before.at(slot(copy.src(), i));
    }
  }

  void poison(Memory& memory, const std::set<int32_t>& live) {
    for (size_t s = 0; s < memory.size(); ++s)
      if (!live.contains(static_cast<int32_t>(s) / block_size_)) memory[s] = {};
  }

  size_t slot(int32_t block, int offset) const {
    return static_cast<size_t>(block * block_size_ + offset);
  }

  void write_encoders(const std::vector<WorkerGroup*>& scheduled, const Batch& batch) {
    const ModelInput& in = batch.input;
    size_t t = 0;
    for (const auto* group : scheduled) {
      if (!group->compute_encoder || group->pools()) continue;
      for (int p = 0; p < static_cast<int>(group->encoder.tokens.size()); ++p, ++t) {
        EXPECT_EQ(in.encoder_positions.at(t), p);
        device_.at(static_cast<size_t>(in.attention.cross_slot_mapping.at(t))) = {
            source_of(*group), p, in.encoder_input_ids.at(t)};
      }
    }
    EXPECT_EQ(t, in.attention.cross_slot_mapping.size());
    check_pooled(scheduled, batch, t);
  }

  // As the encoder's rank has computed it.
  void write_taken(const proto::EncoderTake& take) {
    if (take.blocks().empty()) return;
    const std::vector<int32_t>& tokens = truth_->at(take.seq_id());
    const uint64_t owner =
        shares_sources_ ? hash_tokens(1, tokens) : static_cast<uint64_t>(take.seq_id());
    for (int p = 0; p < static_cast<int>(tokens.size()); ++p)
      device_.at(slot(take.blocks(p / block_size_), p % block_size_)) = {
          owner, p, tokens[static_cast<size_t>(p)]};
  }

  // Behind all others, in the order of the message.
  void check_pooled(const std::vector<WorkerGroup*>& scheduled, const Batch& batch, size_t t) {
    pooled_.clear();
    for (const auto* group : scheduled) {
      if (!group->pools()) continue;
      EXPECT_TRUE(group->compute_encoder);
      const auto& ids = group->encoder.tokens;
      const PooledRows& rows = batch.pooled.at(pooled_.size());
      EXPECT_EQ(rows.group, group);
      EXPECT_EQ(rows.first, static_cast<int32_t>(t));
      const int length = static_cast<int>(ids.size());
      EXPECT_EQ(rows.end - rows.first, length);
      for (int p = 0; p < length; ++p, ++t) {
        EXPECT_EQ(batch.input.encoder_positions.at(t), p);
        EXPECT_EQ(batch.input.encoder_input_ids.at(t), ids[static_cast<size_t>(p)]);
      }
      pooled_.push_back({group->request_id, group->seqs[0].seq_id});
    }
    EXPECT_EQ(batch.pooled.size(), pooled_.size());
    EXPECT_EQ(t, batch.input.encoder_input_ids.size());
  }

  void write_decoders(const Batch& batch) {
    const ModelInput& in = batch.input;
    std::set<int32_t> written;
    size_t r = 0;
    for (size_t t = 0; t < in.input_ids.size(); ++t) {
      if (static_cast<int32_t>(t) == batch.rows.at(r).first_token + batch.rows[r].num_tokens) ++r;
      const SampleRow& row = batch.rows.at(r);
      const int32_t slot = in.attention.slot_mapping.at(t);
      EXPECT_TRUE(written.insert(slot).second) << "slot " << slot << " written twice";
      const WorkerSequence& seq = row.seq();
      std::vector<int32_t> tokens = seq.prompt;
      tokens.insert(tokens.end(), seq.output.begin(), seq.output.end());
      tokens.insert(tokens.end(), seq.drafts.begin(), seq.drafts.end());
      tokens.resize(static_cast<size_t>(in.positions[t] + 1));
      EXPECT_EQ(tokens.back(), in.input_ids[t]);
      device_.at(static_cast<size_t>(slot)) = self_tags(row, tokens).back();
    }
  }

  uint64_t source_of(const WorkerGroup& group) const {
    if (!shares_sources_) return static_cast<uint64_t>(group.encoder.seq_id);
    return hash_tokens(1, group.encoder.tokens);
  }
  // Of all tokens of a sequence. Keys of a whole prompt depend on all of it.
  std::vector<KvTag> self_tags(const SampleRow& row, const std::vector<int32_t>& tokens) const {
    auto owner = static_cast<uint64_t>(row.seq().seq_id);
    if (shares_prefixes_) owner = hash_tokens(2, row.group->encoder.tokens);
    if (shares_prefixes_ && row.group->whole_prompt) owner = hash_tokens(owner, row.seq().prompt);
    std::vector<KvTag> tags;
    for (const int32_t token : tokens) {
      if (shares_prefixes_) owner = hash_mix(owner, static_cast<uint64_t>(token));
      tags.push_back({owner, static_cast<int32_t>(tags.size()), token});
    }
    return tags;
  }

  void check_reads(const Batch& batch, const Truth& truth) {
    const AttentionMetadata& attention = batch.input.attention;
    size_t group = 0;  // entry of cross-attention
    size_t entry = 0;  // of self-attention
    for (size_t r = 0; r < batch.rows.size(); ++r) {
      const SampleRow& row = batch.rows[r];
      const int64_t seq_id = row.seq().seq_id;
      const int64_t encoder_id = row.group->encoder.seq_id;
      std::vector<int32_t> tokens = truth.at(seq_id);
      tokens.insert(tokens.end(), row.seq().drafts.begin(), row.seq().drafts.end());
      const std::vector<KvTag> self = self_tags(row, tokens);
      const int32_t end = row.first_token + row.num_tokens;
      for (; attention.query_start_loc.at(entry) < end; ++entry) {
        check_keys(attention.self_pages, entry, attention.seq_lens.at(entry), self);
        check_sight(batch.input, row, entry);
      }
      std::vector<KvTag> cross;
      for (const int32_t token : truth.at(encoder_id))
        cross.push_back({source_of(*row.group), static_cast<int32_t>(cross.size()), token});
      EXPECT_EQ(row.samples, attention.seq_lens.at(entry - 1) == static_cast<int>(tokens.size()));
      if (r > 0 && batch.rows[r - 1].group != row.group) ++group;
      ASSERT_LE(attention.cross_query_start_loc.at(group), row.first_token);
      ASSERT_GE(attention.cross_query_start_loc.at(group + 1), row.first_token + row.num_tokens);
      check_keys(attention.cross_pages, group, attention.cross_seq_lens.at(group), cross);
      EXPECT_EQ(attention.cross_seq_lens[group], static_cast<int>(truth.at(encoder_id).size()));
    }
    const size_t groups = batch.rows.empty() ? 0 : group + 1;
    EXPECT_EQ(attention.cross_seq_lens.size(), groups);
    EXPECT_EQ(attention.cross_query_start_loc.size(), groups + 1);
    EXPECT_EQ(attention.cross_query_start_loc.back(),
              static_cast<int32_t>(batch.input.input_ids.size()));
  }

  // Each query sees the tokens up to its own; those of a whole prompt see all of the prompt.
  static void check_sight(const ModelInput& in, const SampleRow& row, size_t entry) {
    const AttentionMetadata& attention = in.attention;
    const int prompt = row.group->whole_prompt ? static_cast<int>(row.seq().prompt.size()) : 0;
    const int begin = attention.query_start_loc[entry], end = attention.query_start_loc[entry + 1];
    ASSERT_GT(end, begin);
    for (int t = begin; t < end; ++t) {
      const int position = in.positions.at(static_cast<size_t>(t));
      ASSERT_EQ(attention.seq_lens[entry] - (end - 1 - t), std::max(position + 1, prompt));
    }
  }

  void check_keys(const PageTable& pages, size_t row, int length,
                  const std::vector<KvTag>& expected) {
    const int first = pages.indptr.at(row);
    const int count = pages.indptr.at(row + 1) - first;
    ASSERT_EQ((count - 1) * block_size_ + pages.last_page_len.at(row), length);
    ASSERT_LE(length, static_cast<int>(expected.size()));
    for (int p = 0; p < length; ++p) {
      const int32_t block = pages.page_indices.at(static_cast<size_t>(first + p / block_size_));
      ASSERT_EQ(device_.at(slot(block, p % block_size_)), expected[static_cast<size_t>(p)])
          << "block " << block;
    }
  }

  std::vector<SampledToken> sample(const std::vector<WorkerGroup*>& scheduled, const Batch& batch) {
    std::vector<int64_t> drafted_seqs;
    for (const WorkerGroup* group : scheduled)
      for (const WorkerSequence& seq : group->seqs)
        if (seq.drafted) drafted_seqs.push_back(seq.seq_id);
    table_.advance(scheduled);
    std::vector<SampledToken> sampled;
    for (const SampleRow& row : batch.rows) {
      if (!row.samples) continue;
      const int64_t seq_id = row.seq().seq_id;
      const std::vector<int32_t>& ids = batch.input.input_ids;
      const auto end = static_cast<size_t>(row.first_token + row.num_tokens);
      const auto group = std::find(scheduled.begin(), scheduled.end(), row.group);
      const std::vector<int32_t> drafts(
          ids.begin() + static_cast<std::ptrdiff_t>(end) - row.num_drafts,
          ids.begin() + static_cast<std::ptrdiff_t>(end));
      const bool drafted =
          std::find(drafted_seqs.begin(), drafted_seqs.end(), seq_id) != drafted_seqs.end();
      for (size_t at = end - static_cast<size_t>(row.num_drafts) - 1, first = at; at < end; ++at) {
        if (at > first && sampled.back().token != ids.at(at)) break;  // the draft was wrong
        const int32_t token = token_of(seed_, row.group->request_id, row.seq().index,
                                       batch.input.positions.at(at), ids.at(at), repeats_);
        sampled.push_back({row.group->request_id, seq_id, token});
        if (at == first && drafted) sampled.back().drafts = drafts;
        if (at == first)
          table_.append_token(**group, seq_id, token);
        else
          table_.append_behind_draft(**group, seq_id, token);
      }
    }
    table_.check_integrity();
    return sampled;
  }

  int block_size_;
  bool shares_sources_, shares_prefixes_, repeats_;
  SequenceTable table_;
  Memory device_, host_;
  uint32_t seed_;
  const Truth* truth_ = nullptr;
  const LiveBlocks* live_ = nullptr;
  std::vector<SampledToken> sampled_;
  std::vector<PooledSequence> pooled_;
};

}  // namespace tandem::testing_support
