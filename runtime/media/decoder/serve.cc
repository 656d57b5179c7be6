// Jobs come with a descriptor each; what is decoded goes back in frames (decoder_protocol.h).
#include "runtime/media/decoder/serve.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/media/decoder/byte_source.h"
#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/image_decoder.h"
#include "runtime/media/decoder/sandbox.h"
#include "runtime/media/decoder/sound/codecs.h"
#include "runtime/media/decoder/sound/sound_decoder.h"
#include "runtime/media/decoder_protocol.h"

namespace tandem::decoder {
namespace {

constexpr int kSocket = STDIN_FILENO;

// Whoever wanted to know has gone.
struct ParentGone {};

void send_all(const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(kSocket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw ParentGone();
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
}

void send_frame(FrameKind kind, std::string_view bytes) {
  const FrameHeader header{kind, static_cast<uint32_t>(bytes.size())};
  send_all(reinterpret_cast<const char*>(&header), sizeof header);
  send_all(bytes.data(), bytes.size());
}

template <class Header>
void send_header(FrameKind kind, const Header& header, std::string_view text = {}) {
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(text.substr(0, kMostFrameBytes - bytes.size()));
  send_frame(kind, bytes);
}

// In as many frames as it takes.
void send_data(FrameKind kind, std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMostFrameBytes)))
    send_frame(kind, bytes.substr(0, kMostFrameBytes));
}

// The file of a job, which others may read too.
class Descriptor final : public ByteSource {
 public:
  Descriptor(int fd, uint64_t size) : fd_(fd), size_(size) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() override { close(fd_); }

  uint64_t size() const override { return size_; }
  size_t read(uint64_t at, char* to, size_t count) override {
    if (at >= size_) return 0;
    count = static_cast<size_t>(std::min<uint64_t>(count, size_ - at));
    for (;;) {
      const ssize_t got = pread(fd_, to, count, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      return got > 0 ? static_cast<size_t>(got) : 0;
    }
  }

 private:
  int fd_;
  uint64_t size_;
};

class Samples final : public SoundSink {
 public:
  double seconds = 0;
  void length(double value) override { seconds = value; }
  void samples(std::span<const float> samples) override {
    send_data(FrameKind::kSamples,
              {reinterpret_cast<const char*>(samples.data()), samples.size_bytes()});
  }
};

// False: there are no more jobs.
bool receive(Job& job, int& file) {
  iovec bytes = {&job, sizeof job};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = recvmsg(kSocket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const cmsghdr* const part = CMSG_FIRSTHDR(&message);
  if (got != sizeof job || job.protocol != kProtocol || part == nullptr ||
      part->cmsg_type != SCM_RIGHTS)
    return false;
  std::memcpy(&file, CMSG_DATA(part), sizeof file);
  return true;
}

void read_sound(const Job& job, ByteSource& source) {
  Samples sink;
  const auto lines = decode_sound(source, job.rate, {job.seconds, job.channels}, sink);
  for (size_t i = 0; i < std::min(lines.size(), kMostWarnings); ++i)
    send_frame(FrameKind::kWarning, std::string_view(lines[i]));
  send_header(FrameKind::kDone, sink.seconds);
}

void send_image(const Image& image) {
  send_header(FrameKind::kImage, ImageSize{image.width, image.height});
  send_data(FrameKind::kPixels,
            {reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()});
  send_frame(FrameKind::kDone, std::string_view());
}

void read_document(const Job& job, ByteSource& source, const DocumentReader* documents) {
  if (documents == nullptr) throw unreadable("is a document, which another program reads");
  if (job.channels == 0) return send_header(FrameKind::kDone, double(documents->count(source)));
  send_image(documents->page(source, job.channels, job.rate));
}

void run(const Job& job, int file, const DocumentReader* documents) {
  Descriptor source(file, job.size);
  try {
    switch (job.kind) {
      case JobKind::kSound: read_sound(job, source); break;
      case JobKind::kImage: send_image(decode_image(source)); break;
      case JobKind::kDocument: read_document(job, source, documents); break;
    }
  } catch (const DecodeError& error) {
    send_header(FrameKind::kError, ErrorHeader{error.kind() == ErrorKind::kResource ? 1u : 0u},
                error.what());
  }
}

}  // namespace

int serve(const DocumentReader* documents) {
  is_decoder("");  // the lists are made
  if (documents != nullptr) documents->prepare();
  const SandboxState state = enter_sandbox();
  try {
    send_header(FrameKind::kHello, Hello{kProtocol, state.sandbox}, state.why);
    Job job;
    for (int file = -1; receive(job, file);) run(job, file, documents);
  } catch (const ParentGone&) {
  } catch (const std::bad_alloc&) {
    // What it has in its hands by now is of any kind: a new one starts with nothing.
    return kExitNoMemory;
  }
  return 0;
}

}  // namespace tandem::decoder
