// What a profile (base/profile) shows of a rank's steps.
#pragma once

#include "base/profile/profile.h"
#include "runtime/execution/batch_builder.h"

namespace tandem {

// Named by say_step().
inline constexpr SpanKind kStepSpan{
    "step", "step", {"sequences", "encoder_tokens", "decoder_tokens", "drafts"}};
inline constexpr SpanKind kMessageSpan{"message", "phase"};
inline constexpr SpanKind kDraftsSpan{"drafts", "phase", {"sequences"}};
inline constexpr SpanKind kBatchSpan{"batch", "phase"};
inline constexpr SpanKind kEncoderSpan{"encoder", "phase", {"tokens"}};
inline constexpr SpanKind kDecoderSpan{"decoder", "phase", {"tokens"}};
inline constexpr SpanKind kDeviceSpan{"device", "phase"};  // its answer is waited for
inline constexpr SpanKind kSampleSpan{"sample", "phase", {"rows"}};

// What the step does, "encode", "prefill", "decode" and "verify" with "+" between, and how much of
// it. Before its chunks count as computed.
void say_step(ProfileSpan& span, const Batch& batch);

}  // namespace tandem
