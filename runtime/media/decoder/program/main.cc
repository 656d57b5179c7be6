// tandem-decoder: reads files of sound and images for `tandem`, locked in (docs/decoder.md).
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/media/decoder/sandbox.h"
#include "runtime/media/decoder/self_test.h"
#include "runtime/media/decoder/serve.h"

namespace {

constexpr const char* kUsage =
    "tandem-decoder reads files of sound and images for tandem, which starts it.\n"
    "\n"
    "  tandem-decoder --self-test   tries what it must not be able to do; status 0: nothing "
    "worked,\n"
    "                               77: this system has no seccomp\n";

}  // namespace

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--self-test" && argc == 2) return tandem::decoder::self_test();
  if (first == "--help" && argc == 2) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (first != "--serve" || argc != 3) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // Whoever started it says when it ends: a terminal's or a service manager's signals go to both.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(number, SIG_IGN);
  if (!tandem::decoder::end_with_parent(std::atoi(argv[2]))) return 0;
  // By now the loader has said what it had to say.
  if (const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC); nothing >= 0) {
    if (std::getenv("ASAN_OPTIONS") == nullptr) dup2(nothing, STDERR_FILENO);
    close(nothing);
  }
  return tandem::decoder::serve();
}
