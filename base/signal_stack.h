// A second stack for a thread's signal handlers, so that a stack overflow can still be recorded.
#pragma once

namespace tandem {

// Gives the calling thread a signal stack until its end; does nothing if it has one. Every thread
// whose crash is to be recorded calls this. Handlers must be installed with SA_ONSTACK. If the
// system has no memory for it, handlers run on the thread's own stack.
void use_signal_stack();

}  // namespace tandem
