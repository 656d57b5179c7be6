#include "runtime/media/sound/segments.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr double kSecondsPerTime = 0.02, kSecondsPerFrame = 0.01;

}  // namespace

WindowSegments split_segments(std::span<const int32_t> tokens, int32_t first_timestamp,
                              const SpeechWindow& window, int64_t frames_per_position) {
  const auto is_time = [&](size_t i) { return tokens[i] >= first_timestamp; };
  const size_t size = tokens.size();
  // (In the order in which HuggingFace multiplies.)
  const double offset = static_cast<double>(window.begin) * kSecondsPerTime /
                        static_cast<double>(frames_per_position);
  const auto at = [&](int64_t time) {
    return offset + static_cast<double>(time) * kSecondsPerTime;
  };
  WindowSegments out;
  out.frames = window.frames;
  const auto add = [&](size_t begin, size_t end, double from, double to) {
    proto::SpeechSegment& segment = out.segments.emplace_back();
    segment.set_start(from);
    segment.set_end(to);
    segment.mutable_token_ids()->Assign(tokens.begin() + static_cast<long>(begin),
                                        tokens.begin() + static_cast<long>(end));
  };
  std::vector<size_t> ends;  // behind the first of each pair
  for (size_t i = 0; i + 1 < size; ++i)
    if (is_time(i) && is_time(i + 1)) ends.push_back(i + 1);
  if (ends.empty()) {
    // (In floats as there: 1640 frames are 820 times, in doubles 819.99.)
    auto last = static_cast<int64_t>(static_cast<float>(window.frames) *
                                     static_cast<float>(kSecondsPerFrame) /
                                     static_cast<float>(kSecondsPerTime));
    for (size_t i = size; i-- > 0;)
      if (is_time(i)) {
        if (tokens[i] != first_timestamp) last = tokens[i] - first_timestamp;
        break;
      }
    add(0, size, offset, at(last));
    return out;
  }
  const bool single = size >= 2 && !is_time(size - 2) && is_time(size - 1);
  if (single)
    ends.push_back(size);
  else
    ++ends.back();  // the last segment has both times, which tells it from a single one
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const size_t end = ends[i], last = end - (i + 1 == ends.size() && !single ? 2 : 1);
    add(begin, end, at(tokens[begin] - first_timestamp), at(tokens[last] - first_timestamp));
    begin = end;
  }
  if (!single) out.frames = (tokens[begin - 2] - first_timestamp) * frames_per_position;
  return out;
}

}  // namespace tandem
