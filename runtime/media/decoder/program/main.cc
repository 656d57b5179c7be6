// tandem-decoder: reads files of sound and images for `tandem`, locked in (docs/design/decoder.md).
#include "runtime/media/decoder/program/program.h"

namespace {

constexpr const char* kUsage =
    "tandem-decoder reads files of sound and images for tandem, which starts it.\n"
    "\n"
    "  tandem-decoder --self-test   tries what it must not be able to do; status 0: nothing "
    "worked,\n"
    "                               77: this system has no seccomp\n";

}  // namespace

int main(int argc, char** argv) {
  return tandem::decoder::run_program(argc, argv, kUsage, nullptr);
}
