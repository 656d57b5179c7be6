// tandem-page-decoder: reads files of pages for `tandem`, locked in (docs/design/decoder.md).
#include "runtime/media/decoder/document/pdf_document.h"
#include "runtime/media/decoder/program/program.h"

namespace {

constexpr const char* kUsage =
    "tandem-page-decoder reads files of pages for tandem, which starts it.\n"
    "\n"
    "  tandem-page-decoder --self-test   tries what it must not be able to do; status 0: nothing "
    "worked,\n"
    "                                    77: this system has no seccomp\n";

}  // namespace

int main(int argc, char** argv) {
  return tandem::decoder::run_program(argc, argv, kUsage, &tandem::decoder::kPdfDocuments);
}
