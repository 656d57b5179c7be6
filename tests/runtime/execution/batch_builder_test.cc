// The arrays of a step, number by number: the worked example of three requests, block size 2,
// budget 10, and its counterparts for the encoder and the cross-attention cache.

#include "runtime/execution/batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/execution/groups/sequence_table.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Metadata = proto::SequenceGroupMetadata;

struct TestSequence {
  int64_t seq_id;
  int prompt_len;
  int chunk;
  std::vector<int32_t> blocks;
};

// Token j of sequence i has the id 100 * i + j, encoder token j of request i the id 1000 * i + j.
Metadata make_group(int request, int encoder_len, std::vector<int32_t> cross_blocks,
                    const std::vector<TestSequence>& seqs, bool compute_encoder) {
  Metadata group;
  group.set_request_id("request_" + std::to_string(request));
  group.set_compute_encoder(compute_encoder);
  group.mutable_sampling_params()->set_max_tokens(100);
  auto& encoder = *group.mutable_encoder_seq_data();
  for (int j = 0; j < encoder_len; ++j) encoder.add_prompt_token_ids(1000 * request + j);
  encoder.set_encoder_length(encoder_len);
  encoder.set_token_chunk_size(compute_encoder ? encoder_len : 0);
  encoder.set_num_computed_tokens(compute_encoder ? 0 : encoder_len);
  for (const int32_t block : cross_blocks) group.mutable_cross_block_table()->add_blocks(block);
  for (const TestSequence& seq : seqs) {
    auto& data = *group.add_seq_data();
    data.set_seq_id(seq.seq_id);
    data.set_index(group.seq_data_size() - 1);
    for (int j = 0; j < seq.prompt_len; ++j)
      data.add_prompt_token_ids(static_cast<int32_t>(100 * seq.seq_id + j));
    data.set_token_chunk_size(seq.chunk);
    auto& table = *group.add_block_tables();
    table.set_seq_id(seq.seq_id);
    for (const int32_t block : seq.blocks) table.add_blocks(block);
  }
  return group;
}

void add_delta(proto::StepInput& step, const std::string& request_id, int64_t seq_id, int chunk,
               const std::vector<int32_t>& new_blocks) {
  auto& delta = *step.add_deltas();
  delta.set_request_id(request_id);
  auto& seq = *delta.add_seqs();
  seq.set_seq_id(seq_id);
  seq.set_token_chunk_size(chunk);
  for (const int32_t block : new_blocks) seq.add_new_blocks(block);
}

// What the example derives on the way with dense tables [requests, 12] and [requests, 6].
std::vector<int> token_indices(const ModelInput& in, int max_model_len) {
  std::vector<int> out;
  for (size_t t = 0; t < in.positions.size(); ++t)
    out.push_back(in.positions[t] + in.request_indices[t] * max_model_len);
  return out;
}
std::vector<int> block_table_indices(const ModelInput& in, int block_size, int max_blocks) {
  std::vector<int> out;
  for (size_t t = 0; t < in.positions.size(); ++t)
    out.push_back(in.request_indices[t] * max_blocks + in.positions[t] / block_size);
  return out;
}

class WorkedExample : public ::testing::Test {
 protected:
  // The encoder has run in an earlier step: the example is about decoder tokens.
  Batch step_1() {
    proto::StepInput step;
    *step.add_groups() = make_group(0, 1, {9}, {{0, 3, 3, {1, 2}}}, false);
    *step.add_groups() = make_group(1, 1, {10}, {{1, 2, 2, {3}}}, false);
    *step.add_groups() = make_group(2, 1, {11}, {{2, 8, 5, {4, 5, 6}}}, false);
    scheduled_ = table_.apply(step);
    return build_batch(scheduled_, 2);
  }

  Batch step_2() {
    table_.advance(scheduled_);
    table_.append_token(*scheduled_[0], 0, 3);    // T_0_3
    table_.append_token(*scheduled_[1], 1, 102);  // T_1_2
    proto::StepInput step;
    add_delta(step, "request_0", 0, 1, {});
    add_delta(step, "request_1", 1, 1, {7});
    add_delta(step, "request_2", 2, 3, {8});
    scheduled_ = table_.apply(step);
    return build_batch(scheduled_, 2);
  }

  SequenceTable table_{{.block_size = 2, .num_device_blocks = 12}};
  std::vector<WorkerGroup*> scheduled_;
};

TEST_F(WorkedExample, Step1AllRequestsPrefill) {
  const Batch batch = step_1();
  const ModelInput& in = batch.input;
  const AttentionMetadata& attention = in.attention;
  EXPECT_THAT(in.request_indices, ElementsAre(0, 0, 0, 1, 1, 2, 2, 2, 2, 2));
  EXPECT_THAT(in.positions, ElementsAre(0, 1, 2, 0, 1, 0, 1, 2, 3, 4));
  EXPECT_THAT(token_indices(in, 12), ElementsAre(0, 1, 2, 12, 13, 24, 25, 26, 27, 28));
  EXPECT_THAT(in.input_ids, ElementsAre(0, 1, 2, 100, 101, 200, 201, 202, 203, 204));
  EXPECT_THAT(block_table_indices(in, 2, 6), ElementsAre(0, 0, 1, 6, 6, 12, 12, 13, 13, 14));
  EXPECT_THAT(attention.slot_mapping, ElementsAre(2, 3, 4, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(attention.query_start_loc, ElementsAre(0, 3, 5, 10));
  EXPECT_THAT(attention.seq_lens, ElementsAre(3, 2, 5));
  EXPECT_THAT(attention.num_computed_tokens, ElementsAre(0, 0, 0));
  EXPECT_EQ(attention.num_requests, 3);
  EXPECT_THAT(attention.num_tokens, ElementsAre(3, 2, 5));
  EXPECT_EQ(attention.max_query_len, 5);
  EXPECT_THAT(attention.self_pages.indptr, ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(attention.self_pages.page_indices, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(attention.self_pages.last_page_len, ElementsAre(1, 2, 1));

  ASSERT_EQ(batch.rows.size(), 3u);
  EXPECT_TRUE(batch.rows[0].samples);
  EXPECT_TRUE(batch.rows[1].samples);
  EXPECT_FALSE(batch.rows[2].samples) << "three tokens of its prompt are left";
  EXPECT_EQ(batch.rows[2].first_token, 5);
  EXPECT_EQ(batch.rows[2].num_tokens, 5);
  EXPECT_EQ(batch.rows[2].group->request_id, "request_2");
}

TEST_F(WorkedExample, Step2ChunkedPrefill) {
  step_1();
  const Batch batch = step_2();
  const ModelInput& in = batch.input;
  const AttentionMetadata& attention = in.attention;
  EXPECT_THAT(in.request_indices, ElementsAre(0, 1, 2, 2, 2));
  EXPECT_THAT(in.positions, ElementsAre(3, 2, 5, 6, 7));
  EXPECT_THAT(token_indices(in, 12), ElementsAre(3, 14, 29, 30, 31));
  EXPECT_THAT(in.input_ids, ElementsAre(3, 102, 205, 206, 207));
  EXPECT_THAT(block_table_indices(in, 2, 6), ElementsAre(1, 7, 14, 15, 15));
  EXPECT_THAT(attention.slot_mapping, ElementsAre(5, 14, 13, 16, 17));
  EXPECT_THAT(attention.query_start_loc, ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(attention.seq_lens, ElementsAre(4, 3, 8));
  EXPECT_THAT(attention.num_computed_tokens, ElementsAre(3, 2, 5));
  EXPECT_EQ(attention.num_requests, 3);
  EXPECT_THAT(attention.num_tokens, ElementsAre(1, 1, 3));
  EXPECT_EQ(attention.max_query_len, 3);
  EXPECT_THAT(attention.self_pages.indptr, ElementsAre(0, 2, 4, 8));
  EXPECT_THAT(attention.self_pages.page_indices, ElementsAre(1, 2, 3, 7, 4, 5, 6, 8));
  EXPECT_THAT(attention.self_pages.last_page_len, ElementsAre(2, 1, 2));

  for (const SampleRow& row : batch.rows) EXPECT_TRUE(row.samples);
  EXPECT_FALSE(in.has_encoder_work());
}

// Two groups with encoders of 3 and 5 tokens; the second has two sequences, which share its cross
// table and are one entry of cross-attention.
TEST(BatchBuilder, EncodersAndCrossAttention) {
  SequenceTable table({.block_size = 2, .num_device_blocks = 20});
  proto::StepInput step;
  *step.add_groups() = make_group(1, 3, {4, 2}, {{1, 2, 2, {0}}}, true);
  *step.add_groups() = make_group(2, 5, {9, 8, 7}, {{2, 2, 2, {1}}, {3, 2, 1, {5}}}, true);
  auto scheduled = table.apply(step);
  Batch batch = build_batch(scheduled, 2);
  const ModelInput& in = batch.input;
  const AttentionMetadata& attention = in.attention;
  EXPECT_TRUE(in.has_encoder_work());
  EXPECT_TRUE(in.has_decoder_work());
  EXPECT_THAT(in.encoder_input_ids, ElementsAre(1000, 1001, 1002, 2000, 2001, 2002, 2003, 2004));
  EXPECT_THAT(in.encoder_positions, ElementsAre(0, 1, 2, 0, 1, 2, 3, 4));
  EXPECT_THAT(attention.encoder_start_loc, ElementsAre(0, 3, 8));
  EXPECT_THAT(attention.encoder_seq_lens, ElementsAre(3, 5));
  EXPECT_EQ(attention.max_encoder_seq_len, 5);
  EXPECT_THAT(attention.cross_slot_mapping, ElementsAre(8, 9, 4, 18, 19, 16, 17, 14));
  EXPECT_THAT(attention.cross_query_start_loc, ElementsAre(0, 2, 5));
  EXPECT_THAT(attention.cross_seq_lens, ElementsAre(3, 5));
  EXPECT_THAT(attention.cross_pages.indptr, ElementsAre(0, 2, 5));
  EXPECT_THAT(attention.cross_pages.page_indices, ElementsAre(4, 2, 9, 8, 7));
  EXPECT_THAT(attention.cross_pages.last_page_len, ElementsAre(1, 1));
  EXPECT_THAT(in.input_ids, ElementsAre(100, 101, 200, 201, 300));
  EXPECT_THAT(attention.slot_mapping, ElementsAre(0, 1, 2, 3, 10));
  EXPECT_THAT(attention.query_start_loc, ElementsAre(0, 2, 4, 5));
  EXPECT_EQ(batch.rows[2].seq_index, 1);
  EXPECT_FALSE(batch.rows[2].samples);

  // One step later the encoders are done; cross-attention reads the same pages.
  table.advance(scheduled);
  table.append_token(*scheduled[0], 1, 77);
  proto::StepInput next;
  add_delta(next, "request_1", 1, 1, {11});
  add_delta(next, "request_2", 3, 1, {});
  scheduled = table.apply(next);
  const Batch second = build_batch(scheduled, 2);
  EXPECT_FALSE(second.input.has_encoder_work());
  EXPECT_THAT(second.input.attention.encoder_start_loc, ElementsAre(0));
  EXPECT_THAT(second.input.attention.encoder_seq_lens, IsEmpty());
  EXPECT_EQ(second.input.attention.max_encoder_seq_len, 0);
  EXPECT_THAT(second.input.attention.cross_slot_mapping, IsEmpty());
  EXPECT_THAT(second.input.input_ids, ElementsAre(77, 301));
  EXPECT_THAT(second.input.attention.slot_mapping, ElementsAre(22, 11));
  EXPECT_THAT(second.input.attention.cross_query_start_loc, ElementsAre(0, 1, 2));
  EXPECT_THAT(second.input.attention.cross_seq_lens, ElementsAre(3, 5));
  EXPECT_THAT(second.input.attention.cross_pages.indptr, ElementsAre(0, 2, 5));
  EXPECT_THAT(second.input.attention.cross_pages.page_indices, ElementsAre(4, 2, 9, 8, 7));
  table.check_integrity();
}

// Beams, of which one is not scheduled, between a group whose encoder runs alone and one of a
// single sequence.
TEST(BatchBuilder, CrossAttentionByGroup) {
  SequenceTable table({.block_size = 4, .num_device_blocks = 20});
  proto::StepInput step;
  *step.add_groups() = make_group(1, 9, {1, 2, 3}, {{1, 1, 0, {0}}}, true);
  *step.add_groups() = make_group(
      2, 5, {9, 8}, {{2, 2, 1, {4}}, {3, 2, 2, {5}}, {4, 2, 0, {6}}, {5, 3, 3, {7}}}, false);
  *step.add_groups() = make_group(3, 4, {11}, {{6, 1, 1, {10}}}, false);
  const Batch batch = build_batch(table.apply(step), 4);
  const AttentionMetadata& attention = batch.input.attention;
  EXPECT_EQ(attention.num_requests, 4);
  EXPECT_THAT(attention.query_start_loc, ElementsAre(0, 1, 3, 6, 7));
  EXPECT_THAT(batch.input.request_indices, ElementsAre(0, 1, 1, 2, 2, 2, 3));
  EXPECT_THAT(attention.self_pages.indptr, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(attention.cross_query_start_loc, ElementsAre(0, 6, 7));
  EXPECT_THAT(attention.cross_seq_lens, ElementsAre(5, 4));
  EXPECT_THAT(attention.cross_pages.indptr, ElementsAre(0, 2, 3));
  EXPECT_THAT(attention.cross_pages.page_indices, ElementsAre(9, 8, 11));
  EXPECT_THAT(attention.cross_pages.last_page_len, ElementsAre(1, 4));
}

TEST(BatchBuilder, EncoderAlone) {
  SequenceTable table({.block_size = 4, .num_device_blocks = 20});
  proto::StepInput step;
  *step.add_groups() = make_group(1, 8, {3, 4}, {{1, 2, 0, {0}}}, true);
  const Batch batch = build_batch(table.apply(step), 4);
  EXPECT_TRUE(batch.rows.empty());
  EXPECT_FALSE(batch.input.has_decoder_work());
  EXPECT_EQ(batch.input.attention.num_requests, 0);
  EXPECT_EQ(batch.input.attention.max_query_len, 0);
  EXPECT_THAT(batch.input.attention.query_start_loc, ElementsAre(0));
  EXPECT_THAT(batch.input.attention.self_pages.indptr, ElementsAre(0));
  EXPECT_THAT(batch.input.attention.cross_query_start_loc, ElementsAre(0));
  EXPECT_THAT(batch.input.attention.cross_pages.indptr, ElementsAre(0));
  EXPECT_THAT(batch.input.attention.cross_slot_mapping,
              ElementsAre(12, 13, 14, 15, 16, 17, 18, 19));
}

// Rows of the encoder, those of pooled inputs behind the others, and of the decoder.
TEST(BatchBuilder, AdaptersOfRows) {
  SequenceTable table({.block_size = 4, .num_device_blocks = 20});
  proto::StepInput step;
  *step.add_groups() = make_group(1, 2, {3}, {{1, 2, 2, {0}}}, true);
  *step.add_groups() = make_group(2, 3, {4}, {{2, 3, 3, {5}}}, true);
  step.mutable_groups(1)->mutable_sampling_params()->mutable_adapter()->set_id(7);
  std::vector<WorkerGroup*> scheduled = table.apply(step);
  WorkerGroup pooled;
  pooled.params.mutable_pooling()->set_kind(proto::Pooling::MEAN);
  pooled.params.mutable_adapter()->set_id(8);
  pooled.encoder.tokens = {5, 6};
  pooled.encoder.length = 2;
  pooled.compute_encoder = true;
  scheduled.insert(scheduled.begin(), &pooled);
  const Batch batch = build_batch(scheduled, 4);
  const auto of_rows = [](const AdapterRows& rows) {
    std::vector<uint64_t> out;
    for (int64_t i = 0; i < rows.size(); ++i) out.push_back(rows.of_row(i));
    return out;
  };
  EXPECT_THAT(of_rows(batch.encoder_adapters), ElementsAre(0, 0, 7, 7, 7, 8, 8));
  EXPECT_THAT(of_rows(batch.decoder_adapters), ElementsAre(0, 0, 7, 7, 7));
  scheduled = {scheduled[1]};
  EXPECT_EQ(build_batch(scheduled, 4).decoder_adapters.size(), 0);  // nobody has one
}

TEST(BatchBuilder, NothingScheduled) {
  const Batch batch = build_batch({}, 16);
  EXPECT_FALSE(batch.input.has_encoder_work());
  EXPECT_FALSE(batch.input.has_decoder_work());
  EXPECT_EQ(batch.input.attention.num_requests, 0);
}

// Each token of the prompt has an entry of its own, at whose end it stands; a recomputed output
// looks back.
TEST(BatchBuilder, APromptThatAttendsToAllOfItself) {
  SequenceTable table({.block_size = 2, .num_device_blocks = 20, .whole_prompts = true});
  proto::StepInput step;
  *step.add_groups() = make_group(1, 2, {3}, {{1, 3, 5, {4, 5, 6}}}, true);
  for (const int32_t token : {7, 8})
    step.mutable_groups(0)->mutable_seq_data(0)->add_output_token_ids(token);
  *step.add_groups() = make_group(2, 2, {8}, {{2, 1, 1, {9}}}, true);  // sees itself alone
  const Batch batch = build_batch(table.apply(step), 2);
  const AttentionMetadata& attention = batch.input.attention;
  EXPECT_THAT(batch.input.input_ids, ElementsAre(100, 101, 102, 7, 8, 200));
  EXPECT_THAT(batch.input.positions, ElementsAre(0, 1, 2, 3, 4, 0));
  EXPECT_THAT(attention.slot_mapping, ElementsAre(8, 9, 10, 11, 12, 18));
  EXPECT_EQ(attention.num_requests, 5);
  EXPECT_THAT(attention.query_start_loc, ElementsAre(0, 1, 2, 3, 5, 6));
  EXPECT_THAT(attention.seq_lens, ElementsAre(3, 3, 3, 5, 1));
  EXPECT_THAT(attention.num_computed_tokens, ElementsAre(2, 2, 2, 3, 0));
  EXPECT_THAT(attention.self_pages.indptr, ElementsAre(0, 2, 4, 6, 9, 10));
  EXPECT_THAT(attention.self_pages.page_indices, ElementsAre(4, 5, 4, 5, 4, 5, 4, 5, 6, 9));
  EXPECT_THAT(attention.self_pages.last_page_len, ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(attention.cross_query_start_loc, ElementsAre(0, 5, 6));
  ASSERT_EQ(batch.rows.size(), 2u);
  EXPECT_EQ(batch.rows[0].num_tokens, 5);
  EXPECT_TRUE(batch.rows[0].samples);
  EXPECT_EQ(batch.rows[1].first_token, 5);
  EXPECT_TRUE(attention.shared_keys);  // a device writes keys before it reads any
}

// The rest of one whose beginning was found in a cache; and one with log-probabilities of its
// tokens, which looks back.
TEST(BatchBuilder, PartsOfPromptsThatAttendToAllOfThemselves) {
  SequenceTable table({.block_size = 2, .num_device_blocks = 20, .whole_prompts = true});
  proto::StepInput step;
  *step.add_groups() = make_group(1, 2, {3}, {{1, 4, 2, {4, 5}}}, true);
  step.mutable_groups(0)->mutable_seq_data(0)->set_num_computed_tokens(2);
  *step.add_groups() = make_group(2, 2, {8}, {{2, 4, 3, {9, 10}}}, true);
  step.mutable_groups(1)->mutable_sampling_params()->set_prompt_logprobs(0);
  const AttentionMetadata attention = build_batch(table.apply(step), 2).input.attention;
  EXPECT_THAT(attention.query_start_loc, ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(attention.seq_lens, ElementsAre(4, 4, 3));
}

// Values of HuggingFace's create_position_ids_from_input_ids(), less padding + 1: of a prompt at
// once, then of each new token behind as many tokens as there are, padding or not.
TEST(BatchBuilder, PositionsThatDoNotCountPadding) {
  WorkerGroup group;
  group.encoder.tokens = {9, 1, 8, 1, 7};
  group.encoder.length = 5;
  group.encoder.blocks = {0, 1, 2};
  group.compute_encoder = true;
  WorkerSequence& seq = group.seqs.emplace_back();
  seq.prompt = {2, 1, 5, 6};
  seq.output = {4, 1, 3};
  seq.blocks = {3, 4, 5, 6};
  const auto positions = [&](int computed, int chunk) {
    seq.num_computed = computed;
    seq.chunk = chunk;
    return build_batch({&group}, 2, {.decoder = 1}).input.positions;
  };
  EXPECT_THAT(build_batch({&group}, 2, {.encoder = 1}).input.encoder_positions,
              ElementsAre(0, -1, 1, -1, 2));
  EXPECT_THAT(positions(0, 7), ElementsAre(0, -1, 1, 2, 4, -1, 6));
  EXPECT_THAT(positions(2, 3), ElementsAre(1, 2, 4));  // a part, as where a prompt is cut
  EXPECT_THAT(positions(6, 1), ElementsAre(6));
  seq.num_computed = 0;
  seq.chunk = 7;
  const ModelInput of_encoder = build_batch({&group}, 2, {.encoder = 1}).input;
  EXPECT_THAT(of_encoder.positions, ElementsAre(0, 1, 2, 3, 4, 5, 6));  // each side has its own
  EXPECT_THAT(build_batch({&group}, 2, {.decoder = 1}).input.encoder_positions,
              ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace tandem
