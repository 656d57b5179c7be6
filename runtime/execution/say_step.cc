#include "runtime/execution/say_step.h"

namespace tandem {

void say_step(ProfileSpan& span, const Batch& batch) {
  enum { kEncodes = 1, kPrefills = 2, kDecodes = 4, kVerifies = 8 };
  static constexpr const char* kWords[] = {"step",
                                           "encode",
                                           "prefill",
                                           "encode+prefill",
                                           "decode",
                                           "encode+decode",
                                           "prefill+decode",
                                           "encode+prefill+decode",
                                           "verify",
                                           "encode+verify",
                                           "prefill+verify",
                                           "encode+prefill+verify",
                                           "decode+verify",
                                           "encode+decode+verify",
                                           "prefill+decode+verify",
                                           "encode+prefill+decode+verify"};
  if (!span.is_recorded()) return;
  unsigned what = batch.input.has_encoder_work() ? kEncodes : 0;
  int64_t drafts = 0;
  for (const SampleRow& row : batch.rows) {
    const bool in_prompt = row.seq().num_computed < static_cast<int>(row.seq().prompt.size());
    what |= row.num_drafts > 0 ? kVerifies : in_prompt ? kPrefills : kDecodes;
    drafts += row.num_drafts;
  }
  span.say({static_cast<int64_t>(batch.rows.size()), batch.input.attention.encoder_start_loc.back(),
            static_cast<int64_t>(batch.input.input_ids.size()), drafts},
           kWords[what]);
}

}  // namespace tandem
