// What the sandbox keeps from the program, tried out in it.
#pragma once

namespace tandem::decoder {

// Enters the sandbox, and tries to get out of it in many ways. Prints what did not fail. Returns
// the program's exit status: 0, 1, or kExitUnavailable where there is no sandbox.
int self_test();

}  // namespace tandem::decoder
