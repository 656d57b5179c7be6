// Windows and global tokens: the encoder's states of ragged batches, on one rank and on several,
// against sums written out; and what workers are told of global tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "runtime/execution/encoder_runner.h"
#include "runtime/execution/groups/sequence_table.h"
#include "tests/support/goldens/naive_layers.h"
#include "tests/support/goldens/random_led.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem::global_attention_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::NaiveLayers;
using testing::RandomLed;
using testing::Rows;

// LED's encoder in doubles.
class NaiveEncoder : NaiveLayers {
 public:
  using NaiveLayers::NaiveLayers;

  Rows states(const EncoderIds& in) {
    Rows x;
    for (size_t i = 0; i < in.ids.size(); ++i)
      x.push_back(row_of("led.shared.weight", static_cast<size_t>(in.ids[i]), RandomLed::kWidth));
    for (size_t i = 0; i < x.size(); ++i) {
      const auto at = row_of("led.encoder.embed_positions.weight", i, RandomLed::kWidth);
      for (size_t k = 0; k < at.size(); ++k) x[i][k] += at[k];
    }
    norm(x, "led.encoder.layernorm_embedding");
    for (int i = 0; i < RandomLed::kLayers; ++i)
      layer(x, in.global_positions, RandomLed::kReach[i],
            "led.encoder.layers." + std::to_string(i) + ".");
    return x;
  }

 private:
  void layer(Rows& x, const std::vector<int32_t>& global, int reach, const std::string& at) {
    const std::string self = at + "self_attn.longformer_self_attn.";
    const auto is_global = [&](size_t i) {
      return std::count(global.begin(), global.end(), static_cast<int32_t>(i)) > 0;
    };
    Rows seen = attention(linear(x, self + "query"), linear(x, self + "key"),
                          linear(x, self + "value"), RandomLed::kHeads, [&](size_t q, size_t k) {
                            return is_global(k) ||
                                   std::max(q, k) - std::min(q, k) <= static_cast<size_t>(reach);
                          });
    const Rows everything = attention(
        linear(x, self + "query_global"), linear(x, self + "key_global"),
        linear(x, self + "value_global"), RandomLed::kHeads, [](size_t, size_t) { return true; });
    for (size_t i = 0; i < x.size(); ++i)
      if (is_global(i)) seen[i] = everything[i];
    add(x, linear(seen, at + "self_attn.output"));
    norm(x, at + "self_attn_layer_norm");
    feed_forward(x, at);
  }
};

std::vector<int32_t> all_of(int length) {
  std::vector<int32_t> out(static_cast<size_t>(length));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Lengths on both sides of the windows; without global tokens, with the first, the last, some, all.
std::vector<EncoderIds> sequences() {
  std::mt19937 random(3);
  std::vector<EncoderIds> out;
  const auto add = [&](int length, std::vector<int32_t> global) {
    EncoderIds& one = out.emplace_back();
    for (int i = 0; i < length; ++i)
      one.ids.push_back(static_cast<int32_t>(random() % RandomLed::kVocab));
    one.global_positions = std::move(global);
  };
  add(9, {});
  add(1, {0});
  add(2, {});
  add(37, {0});
  add(5, {4});
  add(64, {63});
  add(15, {0, 1, 2, 3});
  add(RandomLed::kPositions, {0, 8, 40, 41, 77});
  add(16, all_of(16));
  add(33, {});
  add(1, {});
  return out;
}

class WindowsAndGlobalTokens : public ::testing::Test {
 protected:
  std::vector<Tensor> encode(Communicator& comm, const std::vector<EncoderIds>& in, int threads = 1,
                             int tokens = 1000) {
    const ModelConfig config = ModelConfig::load(files_.path());
    Checkpoint checkpoint = Checkpoint::open(files_.path());
    Context ctx(threads);
    const auto model = load_model(config, checkpoint, {ctx, comm, DType::kF32});
    std::vector<Tensor> out;  // of memory that outlives the context's
    for (const Tensor& states : encode_sequences(ctx, *model, in, tokens)) {
      out.emplace_back(states.shape(), DType::kF32);
      std::memcpy(out.back().raw(), states.raw(), states.bytes());
    }
    return out;
  }
  void expect_near(const std::vector<Tensor>& got, const std::vector<EncoderIds>& in) {
    NaiveEncoder naive(files_.path());
    ASSERT_EQ(got.size(), in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      SCOPED_TRACE("sequence " + std::to_string(i));
      const Rows want = naive.states(in[i]);
      ASSERT_EQ(got[i].dim(0), std::ssize(want));
      for (size_t row = 0; row < want.size(); ++row)
        for (size_t k = 0; k < want[row].size(); ++k)
          ASSERT_NEAR(got[i].row<float>(static_cast<int64_t>(row))[k], want[row][k], 5e-5) << row;
    }
  }

  RandomLed files_;
};

TEST_F(WindowsAndGlobalTokens, StatesAreThoseOfPlainSums) {
  const auto comm = make_local_communicator();
  expect_near(encode(*comm, sequences()), sequences());
}

TEST_F(WindowsAndGlobalTokens, ABatchChangesNoBit) {
  const auto comm = make_local_communicator();
  const auto want = encode(*comm, sequences());
  for (const int threads : {1, 3}) {
    const auto alone = encode(*comm, sequences(), threads, /*tokens=*/1);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(std::memcmp(alone[i].raw(), want[i].raw(), want[i].bytes()), 0) << i;
  }
}

TEST_F(WindowsAndGlobalTokens, RanksShareTheHeads) {
  for (const int size : {2, 4}) {
    std::vector<std::vector<Tensor>> got(static_cast<size_t>(size));
    const auto errors = testing::run_ranks(size, {}, [&](Communicator& ranks) {
      got[static_cast<size_t>(ranks.rank())] = encode(ranks, sequences());
    });
    for (const auto& error : errors) ASSERT_EQ(error, "");
    for (const auto& states : got) expect_near(states, sequences());
  }
}

// Which of them are global matters to every token.
TEST_F(WindowsAndGlobalTokens, GlobalTokensReachEverybody) {
  const auto comm = make_local_communicator();
  std::vector<EncoderIds> in(3, sequences()[7]);
  in[1].global_positions = {0};
  in[2].global_positions = {};
  const auto states = encode(*comm, in);
  for (int64_t row = 0; row < states[0].dim(0); ++row)
    for (const size_t other : {size_t{1}, size_t{2}})
      EXPECT_NE(states[0].row<float>(row)[0], states[other].row<float>(row)[0]) << row;
}

TEST(GlobalRows, AreThoseOfTheBatch) {
  AttentionMetadata m;
  m.add_encoder(3, {});
  EXPECT_THAT(m.global_rows, IsEmpty());
  EXPECT_THAT(m.global_start_loc, IsEmpty()) << "nothing is made of nothing";
  m.add_encoder(4, std::vector<int32_t>{0, 3});
  m.add_encoder(2, {});
  m.add_encoder(5, std::vector<int32_t>{4});
  EXPECT_THAT(m.global_rows, ElementsAre(3, 6, 13));
  EXPECT_THAT(m.global_start_loc, ElementsAre(0, 0, 2, 2, 3));
  EXPECT_THAT(m.encoder_start_loc, ElementsAre(0, 3, 7, 9, 14));
}

// A worker's table with one group of four encoder tokens; what it says of their global positions.
std::string told(const std::vector<int32_t>& positions, bool model_has_them) {
  proto::StepInput step;
  proto::SequenceGroupMetadata& group = *step.add_groups();
  group.set_request_id("a");
  group.set_compute_encoder(true);
  group.mutable_sampling_params()->set_max_tokens(3);
  proto::SequenceData& encoder = *group.mutable_encoder_seq_data();
  encoder.set_encoder_length(4);
  encoder.set_token_chunk_size(4);
  for (const int id : {5, 6, 7, 8}) encoder.add_prompt_token_ids(id);
  encoder.mutable_global_attention()->Add(positions.begin(), positions.end());
  for (const int block : {0, 1}) group.mutable_cross_block_table()->add_blocks(block);
  proto::SequenceData& seq = *group.add_seq_data();
  seq.set_seq_id(1);
  seq.add_prompt_token_ids(4);
  seq.set_token_chunk_size(1);
  group.add_block_tables()->set_seq_id(1);
  group.mutable_block_tables(0)->add_blocks(3);
  SequenceTable table({.block_size = 2,
                       .num_device_blocks = 10,
                       .vocab_size = 20,
                       .global_attention = model_has_them});
  try {
    const auto scheduled = table.apply(step);
    EXPECT_EQ(scheduled.at(0)->encoder.global_positions, positions);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(GlobalRows, WhatCannotBeIsRefusedByName) {
  const std::string field = "step input: groups[0].encoder_seq_data.global_attention: ";
  EXPECT_EQ(told({}, true), "");
  EXPECT_EQ(told({}, false), "");
  EXPECT_EQ(told({0, 3}, true), "");
  EXPECT_EQ(told({0}, false), field + "the model has no global attention");
  EXPECT_EQ(told({0, 4}, true), field + "4 is not in [0, 4)");
  EXPECT_EQ(told({-1}, true), field + "-1 is not in [0, 4)");
  EXPECT_EQ(told({1, 1}, true), field + "is not ascending");
  EXPECT_EQ(told({2, 1}, true), field + "is not ascending");
}

}  // namespace
}  // namespace tandem::global_attention_test
