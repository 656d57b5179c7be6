#include "models/blocks/pictures/image_rows.h"

namespace tandem {

std::vector<int32_t> frame_starts(Context& ctx, const StepTensors& in) {
  const size_t sequences = in.host->encoder_seq_lens.size();
  std::vector<int32_t> out;
  if (!in.encoder_frames.empty()) {
    const Tensor starts = ctx.on_host(in.frame_start_loc);
    out.assign(starts.data<int32_t>(), starts.data<int32_t>() + starts.dim(0));
  }
  // Those behind the last one with frames have none.
  out.resize(sequences + 1, out.empty() ? 0 : out.back());
  return out;
}

std::vector<int32_t> image_rows(Context& ctx, const StepTensors& in, int32_t image_id) {
  std::vector<int32_t> out;
  if (in.encoder_frames.empty()) return out;
  const std::vector<int32_t> frames = frame_starts(ctx, in);
  const Tensor ids = ctx.on_host(in.encoder_input_ids);
  const std::vector<int32_t>& starts = in.host->encoder_start_loc;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    if (frames[i] == frames[i + 1]) continue;
    for (int32_t row = starts[i]; row < starts[i + 1]; ++row)
      if (ids.data<int32_t>()[row] == image_id) out.push_back(row);
  }
  return out;
}

}  // namespace tandem
