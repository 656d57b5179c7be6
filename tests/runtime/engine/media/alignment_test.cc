// Weights of cross-attention for times of words: those of a plain forward pass.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/plain_speech.h"

namespace tandem::alignment_test {
namespace {

using testing::plain_speech::Ids;
using testing::plain_speech::kStart;
using testing::plain_speech::Matrix;
using testing::plain_speech::PlainModel;
using testing::plain_speech::prompt_of;
using testing::plain_speech::random_frames;

class Alignments : public ::testing::Test {
 protected:
  Alignments() : model_(2) { model_.write(dir_); }
  EngineConfig config() const {
    EngineConfig out = testing::golden_config("bart-tiny");
    out.mutable_loading()->set_model(dir_.path().string());
    return out;
  }
  test::TempDir dir_;
  PlainModel model_;
};

// Of some heads and positions, in one chunk and in several, beside others.
TEST_F(Alignments, WeightsAreThoseOfAPlainForwardPass) {
  const Ids ids = {5, kStart, 7, 3, 8, 2, 11, 30};
  for (const int budget : {64, 23, 21}) {
    EngineConfig small = config();
    small.mutable_scheduling()->set_max_num_batched_tokens(budget);
    LLMEngine engine(small);
    std::mt19937 random(11);
    std::map<std::string, Matrix> frames;
    for (int i = 0; i < 4; ++i) {
      const std::string id = std::to_string(i);
      frames[id] = random_frames(random, 40 - 9 * i);
      proto::Prompt prompt = prompt_of(frames[id], ids);
      prompt.mutable_pooling()->set_kind(proto::Pooling::ALIGNMENT);
      proto::Alignment& wanted = *prompt.mutable_pooling()->mutable_alignment();
      wanted.add_heads()->set_head(1);
      if (i % 2 == 0) wanted.add_heads()->set_head(0);
      wanted.set_first_token(2 + i);
      wanted.set_positions(5 - i);
      engine.add_request(id, prompt, read_options({}));
      engine.add_request("beside " + id, prompt_of(frames[id], ids), read_options({}));
    }
    int checked = 0;
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step()) {
        if (output.outputs_size() > 0) continue;
        SCOPED_TRACE(output.request_id() + ", budget " + std::to_string(budget));
        const int i = std::stoi(output.request_id());
        const auto want = model_.weights(frames[output.request_id()], ids);
        const auto& got = output.embedding().values();
        int at = 0;
        for (size_t row = static_cast<size_t>(2 + i); row < ids.size(); ++row)
          for (const size_t head : i % 2 == 0 ? std::vector<size_t>{1, 0} : std::vector<size_t>{1})
            for (size_t p = 0; p < static_cast<size_t>(5 - i); ++p, ++at) {
              ASSERT_LT(at, got.size());
              ASSERT_NEAR(got[at], want[head][row][p], 1e-5);
            }
        EXPECT_EQ(at, got.size());
        ++checked;
      }
    EXPECT_EQ(checked, 4);
  }
}

TEST_F(Alignments, WhatCannotBeIsRefused) {
  LLMEngine engine(config());
  std::mt19937 random(11);
  const Matrix frames = random_frames(random, 40);
  const auto refused = [&](const std::function<void(proto::Prompt&)>& change) {
    proto::Prompt prompt = prompt_of(frames, {kStart, 1, 2});
    prompt.mutable_pooling()->set_kind(proto::Pooling::ALIGNMENT);
    prompt.mutable_pooling()->mutable_alignment()->add_heads();
    prompt.mutable_pooling()->mutable_alignment()->set_positions(3);
    change(prompt);
    try {
      engine.add_request("x", prompt, read_options({}));
    } catch (const InputError& error) {
      return error.param();
    }
    return std::string("none");
  };
  const auto alignment = [](proto::Prompt& p) { return p.mutable_pooling()->mutable_alignment(); };
  const std::string name = "pooling.alignment.";
  EXPECT_EQ(refused([&](auto& p) { alignment(p)->clear_heads(); }), name + "heads");
  EXPECT_EQ(refused([&](auto& p) { alignment(p)->mutable_heads(0)->set_layer(1); }),
            name + "heads.layer");
  EXPECT_EQ(refused([&](auto& p) { alignment(p)->mutable_heads(0)->set_head(-1); }),
            name + "heads.head");
  EXPECT_EQ(refused([&](auto& p) { alignment(p)->set_positions(0); }), name + "positions");
  EXPECT_EQ(refused([&](auto& p) { alignment(p)->set_positions(21); }), name + "positions");
  EXPECT_EQ(refused([&](auto& p) { alignment(p)->set_first_token(3); }), name + "first_token");
  EXPECT_EQ(refused([&](auto& p) { p.clear_decoder(); }), "pooling");
  EXPECT_EQ(refused([](auto&) {}), "none");
}

}  // namespace
}  // namespace tandem::alignment_test
