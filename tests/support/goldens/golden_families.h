// Which golden checkpoints of the tree read token ids: at least one of every family that does
// (tests/device/device_goldens_test.cc sees to it).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tandem::testing {

using Checkpoints = std::vector<const char*>;

inline Checkpoints bart_goldens() {
  return {"bart-base-shape", "bart-model-only", "bart-odd-heads", "bart-tiny"};
}

// Of all other families.
inline Checkpoints family_goldens() {
  return {"bigbird-ids",    "blenderbot-tiny",  "blenderbot-small-tiny",
          "byt5-tiny",      "flan-t5-untied",   "florence2-ids",
          "fsmt-ids",       "led-ids",          "longt5-global-ids",
          "longt5-ids",     "m2m100-ids",       "marian-tiny",
          "mbart-ids",      "mbart50-tiny",     "mt5-tiny",
          "mvp-tiny",       "nllb-ids",         "nllb-moe-ids",
          "pegasus-ids",    "pegasus-x-ids",    "plbart-tiny",
          "prophetnet-ids", "roberta2bert-ids", "roberta2gpt2-ids",
          "seamless-ids",   "seamless1-ids",    "switch-ids",
          "t5-tiny",        "t5gemma-ids",      "t5gemma2-ids",
          "umt5-tiny"};
}

inline Checkpoints text_goldens() {
  Checkpoints out = bart_goldens();
  for (const char* name : family_goldens()) out.push_back(name);
  return out;
}

// The name of a test with that checkpoint.
inline std::string checkpoint_test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace tandem::testing
