// What the program gives up before it reads anything.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/media/decoder_protocol.h"

namespace tandem::decoder {

// Memory beyond what it has when it locks itself in; the largest image takes a third of it.
inline constexpr size_t kMostMemory = size_t{1} << 30;

struct SandboxState {
  Sandbox sandbox = Sandbox::kNone;
  std::string why;  // there is none
};

// For good: no new privileges, no files, sockets, programs, processes or threads, no memory that is
// run as code, no memory beyond kMostMemory. What is left: to read what it is given, to answer, to
// compute. What it tries else fails with EPERM. A program of a sanitizer, which needs more, keeps
// all of it.
SandboxState enter_sandbox();

// With `parent`: it ends with the thread that started it. False: that has ended already.
bool end_with_parent(int parent);

}  // namespace tandem::decoder
