#include "runtime/sampling/timestamp_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace tandem {
namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

// The times' probability is above that of each text.
bool times_are_likelier(std::span<const float> texts, std::span<const float> times) {
  const float text = texts.empty() ? kRuledOut : *std::max_element(texts.begin(), texts.end());
  const float best = times.empty() ? kRuledOut : *std::max_element(times.begin(), times.end());
  if (std::isinf(best)) return best > text;
  double sum = 0;
  for (const float x : times) sum += std::exp(double{x} - double{best});
  return double{best} + std::log(sum) > double{text};
}

// What of the prompt is the beginning of the output.
std::span<const int32_t> begun(const proto::TimestampRules& rules,
                               std::span<const int32_t> prompt) {
  const auto count = static_cast<size_t>(std::max(rules.prefix_tokens(), 0));
  TANDEM_CHECK_LE(count, prompt.size());
  return prompt.last(count);
}

void mask_behind(const proto::TimestampRules& rules, std::span<const int32_t> output,
                 std::span<float> row) {
  const auto size = static_cast<int32_t>(row.size());
  const auto mask = [&](int32_t begin, int32_t end) {
    begin = std::clamp(begin, 0, size);
    end = std::clamp(end, begin, size);
    std::fill(row.begin() + begin, row.begin() + end, kRuledOut);
  };
  const int32_t first = std::clamp(rules.first(), 0, size);
  const auto is_time = [&](int32_t id) { return id >= rules.first(); };
  mask(rules.no_timestamps(), rules.no_timestamps() + 1);
  const bool after_time = !output.empty() && is_time(output.back());
  const bool after_pair = after_time && (output.size() < 2 || is_time(output[output.size() - 2]));
  if (after_pair) mask(first, size);                    // a text comes
  if (after_time && !after_pair) mask(0, rules.end());  // another time, or the end
  const auto last = std::find_if(output.rbegin(), output.rend(), is_time);
  // The end of a text may be the next one's beginning; two texts do not begin at once.
  if (last != output.rend()) mask(first, *last + (after_time && !after_pair ? 0 : 1));
  if (output.empty()) {
    mask(0, first);
    if (rules.has_max_initial())
      mask(static_cast<int32_t>(std::min<int64_t>(int64_t{first} + rules.max_initial() + 1, size)),
           size);
  }
  const std::span<const float> all = row;
  if (times_are_likelier(all.first(static_cast<size_t>(first)),
                         all.subspan(static_cast<size_t>(first))))
    mask(0, first);
}

}  // namespace

void mask_by_timestamps(const proto::TimestampRules& rules, std::span<const int32_t> prompt,
                        std::span<const int32_t> output, std::span<float> row) {
  const std::span<const int32_t> before = begun(rules, prompt);
  if (before.empty()) return mask_behind(rules, output, row);
  std::vector<int32_t> all(before.begin(), before.end());
  all.insert(all.end(), output.begin(), output.end());
  mask_behind(rules, all, row);
}

}  // namespace tandem
