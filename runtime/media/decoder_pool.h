// The decoders of a process: a few programs that read files one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/media/decoder_process.h"

namespace tandem {

// Any thread. A thread of its own starts decoders, since they end with the one that started them,
// and buries those that end while they have nothing to do.
class DecoderPool {
 public:
  struct Options {
    std::string program;       // "": find_program()
    size_t most = 4;           // at the same time; who comes then waits
    double idle_seconds = 60;  // one that has had nothing to do for so long ends
    std::string (*find_program)() = decoder_program;
  };
  explicit DecoderPool(Options options);
  // Nobody has one any more. Ends those that wait.
  ~DecoderPool();
  DecoderPool(const DecoderPool&) = delete;
  DecoderPool& operator=(const DecoderPool&) = delete;

  // Of this process; live to its end. of_documents(): of the program that reads PDF files.
  static DecoderPool& of_process();
  static DecoderPool& of_documents();

  // One with nothing to do, or a new one. Throws InputError as DecoderProcess::start() does.
  std::unique_ptr<DecoderProcess> take();
  // One whose job is done; null: it was ended.
  void give_back(std::unique_ptr<DecoderProcess> process);

  size_t num_idle() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
