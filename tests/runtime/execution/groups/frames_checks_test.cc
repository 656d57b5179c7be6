// What workers are told of frames: what fits is taken over, anything else is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "models/step/step_tensors.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Group = proto::SequenceGroupMetadata;

constexpr int kWidth = 3;

SequenceLimits limits() {
  return {.block_size = 2,
          .num_device_blocks = 20,
          .vocab_size = 2000,
          .max_encoder_positions = 8,
          .max_decoder_positions = 30,
          .frames = FrameLimits{kWidth, [](int64_t n) { return (n + 1) / 2; }}};
}

// So many frames, two to a position, with the values 0, 1, 2, … and a decoder prompt of 2.
Group group_of_frames(int request, int num_frames) {
  Group group;
  group.set_request_id("request_" + std::to_string(request));
  group.set_compute_encoder(true);
  group.mutable_sampling_params()->set_max_tokens(9);
  const int length = (num_frames + 1) / 2;
  proto::SequenceData& encoder = *group.mutable_encoder_seq_data();
  encoder.set_encoder_length(length);
  encoder.set_token_chunk_size(length);
  proto::EncoderFrames& frames = *encoder.mutable_frames();
  frames.set_length(length);
  frames.set_num_frames(num_frames);
  frames.set_width(kWidth);
  for (int i = 0; i < num_frames * kWidth; ++i) frames.add_values(static_cast<float>(i));
  const int blocks = (length + 1) / 2;
  for (int i = 0; i < blocks; ++i) group.mutable_cross_block_table()->add_blocks(10 * request + i);
  proto::SequenceData& seq = *group.add_seq_data();
  seq.set_seq_id(request);
  for (const int id : {4, 5}) seq.add_prompt_token_ids(id);
  seq.set_token_chunk_size(2);
  group.add_block_tables()->set_seq_id(request);
  group.mutable_block_tables(0)->add_blocks(10 * request + 9);
  return group;
}

TEST(FrameChecks, ABatchHasAllFramesAndEachLength) {
  SequenceTable table(limits());
  proto::StepInput step;
  *step.add_groups() = group_of_frames(0, 3);
  *step.add_groups() = group_of_frames(1, 6);
  const auto scheduled = table.apply(step);
  const ModelInput in = build_batch(scheduled, 2).input;
  EXPECT_THAT(in.encoder_input_ids, IsEmpty());
  EXPECT_THAT(in.encoder_positions, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_EQ(in.encoder_frames.width, kWidth);
  EXPECT_EQ(in.encoder_frames.values.size(), 9u * kWidth);
  EXPECT_EQ(in.encoder_frames.values[3 * kWidth], 0);
  EXPECT_EQ(in.encoder_frames.values.back(), 17);
  EXPECT_THAT(in.encoder_frames.start_loc, ElementsAre(0, 3, 9));
  EXPECT_THAT(in.attention.encoder_start_loc, ElementsAre(0, 2, 5));
  EXPECT_THAT(in.attention.encoder_seq_lens, ElementsAre(2, 3));
  EXPECT_THAT(in.attention.cross_slot_mapping, ElementsAre(0, 1, 20, 21, 22));
  EXPECT_THAT(in.attention.cross_seq_lens, ElementsAre(2, 3));
  const StepTensors tensors(in);
  EXPECT_THAT(tensors.encoder_frames.shape(), ElementsAre(9, kWidth));
  // What has been computed is kept as keys and values alone.
  table.advance(scheduled);
  EXPECT_TRUE(scheduled[1]->encoder.done());
  EXPECT_THAT(scheduled[1]->encoder.frames.values, IsEmpty());
  table.check_integrity();
}

std::string error_of(const Group& group, const SequenceLimits& with) {
  SequenceTable table(with);
  proto::StepInput step;
  *step.add_groups() = group;
  try {
    build_batch(table.apply(step), 2);
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(table.size(), 0u);
    table.check_integrity();
    return e.what();
  }
  return "no error";
}

TEST(FrameChecks, WhatCannotBeIsRefused) {
  const auto error = [&](const std::function<void(proto::SequenceData&)>& change) {
    Group group = group_of_frames(0, 5);
    change(*group.mutable_encoder_seq_data());
    return error_of(group, limits());
  };
  EXPECT_EQ(error([](auto&) {}), "no error");
  const auto length = [](int n) {
    return [n](proto::SequenceData& e) {
      e.set_encoder_length(n);
      e.mutable_frames()->set_length(n);
      e.set_token_chunk_size(n);
    };
  };
  for (const int n : {-1, 0, 1, 2, 4, 5, 8}) EXPECT_THAT(error(length(n)), HasSubstr("length"));
  EXPECT_EQ(error(length(9)),
            "step input: groups[0].encoder_seq_data.encoder_length: 9 positions, but the model has "
            "8 positions");
  EXPECT_EQ(error([](auto& e) { e.set_encoder_length(4); }),
            "step input: groups[0].encoder_seq_data.frames.length: 3 instead of 4");
  EXPECT_THAT(error([](auto& e) { e.clear_frames(); }), HasSubstr("num_frames: missing"));
  EXPECT_THAT(error([](auto& e) { e.mutable_frames()->set_num_frames(-5); }),
              HasSubstr("num_frames: -5"));
  EXPECT_THAT(error([](auto& e) {
                e.mutable_frames()->set_num_frames(std::numeric_limits<int32_t>::max());
              }),
              HasSubstr("encoder_length: 3, but the model makes 1073741824 positions"));
  EXPECT_EQ(error([](auto& e) { e.mutable_frames()->set_width(kWidth + 1); }),
            "step input: groups[0].encoder_seq_data.frames.width: 4 instead of 3");
  EXPECT_EQ(error([](auto& e) { e.mutable_frames()->clear_values(); }),
            "step input: groups[0].encoder_seq_data.frames.values: 0 numbers instead of 15");
  EXPECT_EQ(error([](auto& e) { e.mutable_frames()->add_values(1); }),
            "step input: groups[0].encoder_seq_data.frames.values: 16 numbers instead of 15");
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
    EXPECT_EQ(error([&](auto& e) { e.mutable_frames()->set_values(7, bad); }),
              "step input: groups[0].encoder_seq_data.frames.values: number 7 is not finite");
  EXPECT_THAT(error([](auto& e) { e.add_prompt_token_ids(5); }),
              HasSubstr("prompt_token_ids: the model's encoder reads frames"));
  EXPECT_THAT(error([](auto& e) { e.set_num_computed_tokens(3); }), HasSubstr("is not divided"));
}

// Found in a cache, or swapped in: the values are not sent.
TEST(FrameChecks, WhatIsComputedNeedsNoValues) {
  Group group = group_of_frames(0, 5);
  group.set_compute_encoder(false);
  group.mutable_encoder_seq_data()->set_token_chunk_size(0);
  group.mutable_encoder_seq_data()->set_num_computed_tokens(3);
  group.mutable_encoder_seq_data()->mutable_frames()->clear_values();
  EXPECT_EQ(error_of(group, limits()), "no error");
  group.mutable_encoder_seq_data()->set_num_computed_tokens(0);
  EXPECT_THAT(error_of(group, limits()), HasSubstr("0 numbers instead of 15"));
}

TEST(FrameChecks, ModelsOfIdsTakeNone) {
  SequenceLimits ids = limits();
  ids.frames.reset();
  EXPECT_EQ(error_of(group_of_frames(0, 5), ids),
            "step input: groups[0].encoder_seq_data.frames: the model's encoder reads token ids");
  Group group = group_of_frames(0, 6);
  group.mutable_encoder_seq_data()->clear_frames();
  for (const int id : {5, 6, 7}) group.mutable_encoder_seq_data()->add_prompt_token_ids(id);
  EXPECT_EQ(error_of(group, ids), "no error");
  group.mutable_encoder_seq_data()->set_encoder_length(2);
  EXPECT_EQ(error_of(group, ids),
            "step input: groups[0].encoder_seq_data.encoder_length: 2, but there are 3 tokens");
}

}  // namespace
}  // namespace tandem
