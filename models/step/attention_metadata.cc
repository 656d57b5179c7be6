#include "models/step/attention_metadata.h"

#include <algorithm>

namespace tandem {

void AttentionMetadata::add_encoder(int32_t length, std::span<const int32_t> global_positions) {
  const int32_t first = encoder_start_loc.back();
  if (!global_positions.empty() && global_start_loc.empty())
    global_start_loc.assign(encoder_start_loc.size(), 0);
  for (const int32_t at : global_positions) global_rows.push_back(first + at);
  if (!global_start_loc.empty())
    global_start_loc.push_back(static_cast<int32_t>(global_rows.size()));
  encoder_start_loc.push_back(first + length);
  encoder_ranges.insert(encoder_ranges.end(), {first, first + length});
  encoder_seq_lens.push_back(length);
  max_encoder_seq_len = std::max(max_encoder_seq_len, length);
}

}  // namespace tandem
