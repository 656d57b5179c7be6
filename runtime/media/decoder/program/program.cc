// The command line of a decoder, and how it is tied to the program that started it.
#include "runtime/media/decoder/program/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/media/decoder/sandbox.h"
#include "runtime/media/decoder/self_test.h"

namespace tandem::decoder {

int run_program(int argc, char** argv, const char* usage, const DocumentReader* documents) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--self-test" && argc == 2) return self_test();
  if (first == "--help" && argc == 2) {
    std::fputs(usage, stdout);
    return 0;
  }
  if (first != "--serve" || argc != 3) {
    std::fputs(usage, stderr);
    return 2;
  }
  // Whoever started it says when it ends: a terminal's or a service manager's signals go to both.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(number, SIG_IGN);
  if (!end_with_parent(std::atoi(argv[2]))) return 0;
  // By now the loader has said what it had to say.
  if (const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC); nothing >= 0) {
    if (std::getenv("ASAN_OPTIONS") == nullptr) dup2(nothing, STDERR_FILENO);
    close(nothing);
  }
  return serve(documents);
}

}  // namespace tandem::decoder
