// What `tandem` and `tandem-decoder` say to each other over a socket of their own
// (docs/design/decoder.md). Both are of one build and one machine: numbers are as they lie in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::decoder {

inline constexpr uint32_t kProtocol = 1;

// tandem → decoder: one at a time, with one descriptor, the file, which is open for reading.
enum class JobKind : uint32_t { kSound = 1, kImage = 2, kDocument = 3 };
struct Job {
  uint32_t protocol = kProtocol;
  JobKind kind = JobKind::kSound;
  uint64_t size = 0;  // of the file, bytes
  // Of sound: samples a second that are wanted, and what is taken at most.
  // Of a document: dots per inch, and the page from 1; page 0: how many there are.
  int32_t rate = 0, channels = 0;
  double seconds = 0;
};
static_assert(sizeof(Job) == 32);

// decoder → tandem: frames, a header and so many bytes. First one kHello. A job's frames: kSamples,
// in order, or one kImage and then kPixels. kWarning may follow. kDone or kError is the last. kDone
// carries a double. A sound's is its length in seconds, by the file's own samples and rates. That
// of a document's page 0 is the number of pages.
enum class FrameKind : uint32_t { kHello, kSamples, kImage, kPixels, kWarning, kDone, kError };
struct FrameHeader {
  FrameKind kind = FrameKind::kDone;
  uint32_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 8);

inline constexpr size_t kMostFrameBytes = size_t{1} << 18;
inline constexpr size_t kMostWarnings = 16;
inline constexpr uint64_t kMostDocumentBytes = uint64_t{64} << 20;

enum class Sandbox : uint32_t { kNone, kOn, kSanitizer };
// Of kHello; behind it, in words, why there is no sandbox.
struct Hello {
  uint32_t protocol = kProtocol;
  Sandbox sandbox = Sandbox::kNone;
};
// Of kImage. Pixels are rows of them, three bytes each.
struct ImageSize {
  int32_t width = 0, height = 0;
};
// Of kError; behind it what is wrong, in words that follow the file's name.
struct ErrorHeader {
  uint32_t too_large = 0;  // more than is taken, else it cannot be read
};

// Exit statuses of the program.
inline constexpr int kExitNoMemory = 3, kExitUnavailable = 77;

}  // namespace tandem::decoder
