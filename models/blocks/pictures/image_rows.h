// Rows of an encoder that stand for positions of an image (FramesBesideIds), whose vectors the
// model makes of frames.
#pragma once

#include <cstdint>
#include <vector>

#include "models/step/step_tensors.h"

namespace tandem {

// The rows with that id, of the sequences that have frames, ascending. Waits for a device.
std::vector<int32_t> image_rows(Context& ctx, const StepTensors& in, int32_t image_id);
// The first frame of each encoder sequence, and the end: [sequences + 1], on the host.
std::vector<int32_t> frame_starts(Context& ctx, const StepTensors& in);

}  // namespace tandem
