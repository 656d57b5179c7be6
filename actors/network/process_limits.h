// Limits of the system on a process: threads, memory, descriptors. Only the user can raise them.
// Whichever thread meets one, the process prints one line that names the limit and exits with a
// status of its own.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

#include "base/error.h"

namespace tandem {

inline constexpr int kWantsResources = 71;  // EX_OSERR
inline constexpr int kInternalError = 70;   // EX_SOFTWARE

class WantOfResources : public InputError {
 public:
  explicit WantOfResources(const std::string& what) : InputError(ErrorKind::kResource, what) {}
};

// What is wanting and which limits rule it, in one line; "" if the exception tells of another
// thing.
std::string want_of_resources(const std::exception& e);
// Writes "tandem: WHAT" and ends the process: no destructors, which might wait for threads that
// could not be made.
[[noreturn]] void end_for_want(const std::string& what);
// The same for what nobody catches, on any thread. Where crashes are recorded (a worker) anything
// but a want still aborts.
void install_terminate_handler();

// Lets the process open as many files as its hard limit allows.
void raise_file_limit();
// How many it may open now.
size_t file_limit();
// Adapts to low limits. Threads get a sufficient stack (ulimit -s). Limited address space is used
// sparingly (ulimit -v). A file at its limit (ulimit -f) gives an error, not a signal. Call it
// before the first thread starts.
void adapt_to_limits();
// Throws WantOfResources if so many more threads cannot run, or so many more files cannot be
// open, at one time. Libraries that find that out themselves abort or hang.
void check_threads(int count);
void check_files(int count);

}  // namespace tandem
