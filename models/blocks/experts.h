// A mixture of experts: feed-forward layers of which a token uses those that a router chooses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/blocks/feed_forward.h"
#include "models/step/step_tensors.h"

namespace tandem {

struct ExpertsOptions {
  int count = 0;     // of experts
  int chosen = 1;    // experts of a token: 1, or 2 whose weights are made to add up to 1
  int capacity = 0;  // tokens of a sequence that an expert takes, from the left; 0: all
  float scale = 1.0f;
  Bias router_bias = Bias::kNone;
  const char* scope = "mlp";  // of `router.classifier` and `experts.expert_0`, …
  const char* fc1 = "wi";     // of an expert
  const char* fc2 = "wo";
};

// The tokens of each expert.
struct Routing {
  std::vector<int32_t> rows;    // of tokens, expert after expert
  std::vector<int32_t> ends;    // [count]: of each expert's in `rows`
  std::vector<int32_t> places;  // [tokens, chosen]: in `rows`; -1: the expert had no room
  std::vector<float> factors;   // [tokens, chosen], of what an expert makes of a token
};

// From the router's logits [tokens, count] f32. HuggingFace's choices: the largest probability,
// then the largest logit of the others; the first of equal ones. `bounded`: ranges of tokens, two
// numbers each, ascending, of each of which an expert takes `capacity`.
Routing route(const Tensor& logits, const ExpertsOptions& options,
              std::span<const int32_t> bounded);

// The choice is the host's: a device waits for the logits, so such steps are not recorded.
class Experts {
 public:
  Experts(const Weights& w, const Build& b, int64_t d_model, const FeedForwardOptions& o,
          const ExpertsOptions& experts);
  // Of an encoder, whose sequences have capacities; of a decoder, where only prompts have.
  Tensor encode(NormedRows& x, const StepTensors& in) const;
  Tensor decode(NormedRows& x, const StepTensors& in) const;

 private:
  struct Expert {
    ColumnParallelLinear fc1;
    RowParallelLinear fc2;
  };
  Tensor forward(NormedRows& x, std::span<const int32_t> bounded) const;

  Build build_;
  int64_t d_model_;
  ExpertsOptions options_;
  ColumnParallelLinear router_;
  std::vector<Expert> experts_;
};

}  // namespace tandem
