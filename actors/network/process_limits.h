// What the system may refuse to a process: threads, memory, descriptors. To want one of them is the
// user's to mend: it is told in one line that names the limit, and ends the process with a status
// of its own, whichever thread finds out.
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
// Makes the best of limits that are low: gives threads a stack that is enough (ulimit -s), spares
// address space where that is limited (ulimit -v), lets a file that may not grow (ulimit -f) be an
// error and no signal. To be called before any other thread is made.
void adapt_to_limits();
// Throws WantOfResources if so many more threads cannot run, or so many more files cannot be
// open, at one time. Libraries that find that out themselves abort or hang.
void check_threads(int count);
void check_files(int count);

}  // namespace tandem
