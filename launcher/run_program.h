// The program `tandem`: its commands, and what becomes of what they throw.
#pragma once

namespace tandem::launcher {

// Runs the command line to its end. Returns the exit status: 0 all well; 1 bad input, or what may
// be well the next time; 2 wrong usage: a command line, a configuration or a model that starting
// again does not mend; 70 a fault; 71 want of threads, memory or descriptors. To be called once, by
// the only thread that there is.
int run_program(int argc, char** argv);

}  // namespace tandem::launcher
