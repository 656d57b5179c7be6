// One `tandem-decoder`, as the program that started it sees it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/media/decoder_protocol.h"

namespace tandem {

// Nothing that it says is trusted: lengths are bounded, every wait has an end. Used by one thread
// at a time. It ends with this object, and with the thread that started it.
class DecoderProcess {
 public:
  // Starts the program, which has a socket, no other descriptor and no environment to speak of, and
  // waits for its greeting. Throws InputError (kUnavailable): it cannot be started, is of another
  // version, or cannot lock itself in and TANDEM_DECODER_SANDBOX does not say that it need not.
  static std::unique_ptr<DecoderProcess> start(const std::string& program);
  DecoderProcess(const DecoderProcess&) = delete;
  DecoderProcess& operator=(const DecoderProcess&) = delete;
  ~DecoderProcess();

  pid_t pid() const { return pid_; }
  // Readable, while it has nothing to do: it has ended, or says what nobody asked for.
  int socket() const { return socket_; }
  // Why it is not locked in; "": it is.
  const std::string& unlocked() const { return unlocked_; }

  // Processor time that it may take from now on, in seconds; the kernel ends it then.
  void allow(double seconds);
  // False: it has ended.
  bool send(const decoder::Job& job, int file);
  enum class Got { kFrame, kEnd, kLate, kNonsense };
  // The next frame, its bytes in `payload`. Waits for `seconds` at most, which become less.
  Got receive(decoder::FrameHeader& header, std::string& payload, double& seconds);
  // Kills and reaps it. Returns how it ended: "ended on signal 11".
  std::string end();

 private:
  DecoderProcess(std::string program, int socket) : program_(std::move(program)), socket_(socket) {}
  Got receive_bytes(char* to, size_t count, double& seconds);
  void greet();

  std::string program_;
  pid_t pid_ = 0;  // 0: it was reaped
  int socket_;
  std::string unlocked_;
};

// TANDEM_DECODER, else beside this program, in ../libexec/tandem, or where packages install it.
std::string decoder_program();
// The same of the program that reads documents: TANDEM_PAGE_DECODER.
std::string page_decoder_program();

}  // namespace tandem
