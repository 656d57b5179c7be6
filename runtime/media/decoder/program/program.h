// What tandem-decoder and tandem-page-decoder have in common.
#pragma once

#include "runtime/media/decoder/serve.h"

namespace tandem::decoder {

// main(): --serve PARENT, --self-test, --help. Returns the exit status.
int run_program(int argc, char** argv, const char* usage, const DocumentReader* documents);

}  // namespace tandem::decoder
