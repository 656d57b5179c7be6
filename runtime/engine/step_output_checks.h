// Whether a worker's answer to a step can be true, as far as the message alone says. (StepAnswers
// checks it against the sequences of the step.)
#pragma once

#include <cstdint>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// expected: the number of the oldest step in flight; 0: there is none. Token ids are in
// [0, vocab_size). stages: of a pipeline; 1 without one. Throws std::runtime_error that names what
// is wrong.
void check_step_output(const proto::StepOutput& output, uint64_t expected, int vocab_size,
                       int stages);

}  // namespace tandem
