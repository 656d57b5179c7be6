// A request's parameters for so many greedy tokens, whatever the checkpoint's defaults are.
#pragma once

#include <nlohmann/json.hpp>

namespace tandem::testing {

inline nlohmann::json greedy_params(int max_tokens) {
  return {{"max_tokens", max_tokens},
          {"min_tokens", 0},
          {"forced_bos_token_id", nullptr},
          {"num_beams", 1},
          {"do_sample", false},
          {"no_repeat_ngram_size", 0},
          {"ignore_eos", true},
          {"forced_eos_token_id", nullptr}};
}

}  // namespace tandem::testing
