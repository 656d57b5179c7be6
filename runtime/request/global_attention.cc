#include "runtime/request/global_attention.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "runtime/request/params/option_sources.h"

namespace tandem {

std::vector<int32_t> global_positions(const proto::Prompt& prompt,
                                      const proto::GenerationOptions& options,
                                      const ModelLimits& limits, int length) {
  const char* const name = "global_attention";
  const bool of_prompt = prompt.encoder().has_global_attention();
  const bool of_options = options.has_global_attention();
  if (of_prompt && (of_options || is_off(options, name)))
    throw invalid_request(name, "is given with the prompt and as a parameter; give one of them");
  if (!of_prompt && !of_options) {
    if (is_off(options, name)) return {};
    std::vector<int32_t> first(
        static_cast<size_t>(std::min(length, limits.default_global_tokens.value_or(0))));
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  if (!limits.default_global_tokens) throw not_supported(name, "the model has no global attention");
  const auto& given = of_prompt ? prompt.encoder().global_attention() : options.global_attention();
  std::vector<int32_t> out(given.at().begin(), given.at().end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (!out.empty() && (out.front() < 0 || out.back() >= length))
    throw invalid_request(name,
                          "position " + std::to_string(out.front() < 0 ? out.front() : out.back()) +
                              " is not one of the encoder's " + std::to_string(length) + " tokens");
  return out;
}

}  // namespace tandem
