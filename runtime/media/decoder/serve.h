// The program's life: job after job.
#pragma once

#include "runtime/media/decoder/byte_source.h"
#include "runtime/media/image/image.h"

namespace tandem::decoder {

// What reads documents; a program without it refuses them.
struct DocumentReader {
  void (*prepare)();  // before the program is locked in
  int (*count)(ByteSource& source);
  Image (*page)(ByteSource& source, int page, int dpi);
};

// Over the socket that is standard input, until it is closed. Returns the exit status.
int serve(const DocumentReader* documents = nullptr);

}  // namespace tandem::decoder
