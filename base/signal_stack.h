// A second stack for the signal handlers of a thread: one whose own stack is full can still leave a
// note of its end.
#pragma once

namespace tandem {

// Gives the calling thread one, which it keeps to its end; at once where it has one already. The
// handlers must be installed with SA_ONSTACK. To be called by every thread whose crash is to be
// recorded; where the system has no memory for it, handlers run on the thread's own stack.
void use_signal_stack();

}  // namespace tandem
