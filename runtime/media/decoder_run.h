// One file that a decoder reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/media/decoder_pool.h"
#include "runtime/media/media_source.h"

namespace tandem {

// Used by one thread. The decoder goes back to the pool when the file is done, and is ended when it
// is not: this object was destroyed before, or something was wrong with the decoder.
class DecoderRun {
 public:
  // Waits for a decoder. `field` is named in errors. Throws InputError (kUnavailable): there is
  // none.
  DecoderRun(DecoderPool& pool, const MediaSource& source, const decoder::Job& job,
             std::string field);
  DecoderRun(const DecoderRun&) = delete;
  DecoderRun& operator=(const DecoderRun&) = delete;
  ~DecoderRun();

  // The next frame of what was decoded: kSamples, kImage, kPixels; kDone at the end. Throws
  // InputError: the decoder says that the file is wrong, it ended, takes too long, or says what
  // makes no sense.
  decoder::FrameKind next(std::string& payload);
  // Of what next() has given. Ends the decoder. Throws InputError.
  [[noreturn]] void fail_as_nonsense() { fail("said what makes no sense"); }
  // What could not be decoded, a few lines; complete at the end. They come from the file's decoder:
  // printable and short.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Of a sound that is done: how long it is, by its own samples and rates. Of a document: how many
  // pages it has, where that was asked for.
  double length() const { return length_; }

 private:
  [[noreturn]] void fail(const std::string& why);
  [[noreturn]] void refuse(const std::string& payload);
  bool has_length() const;
  double seconds_made() const;
  double seconds_to_read() const;
  void allow();
  void take_length(const std::string& payload);

  DecoderPool& pool_;
  const MediaSource source_;
  const decoder::Job job_;
  const std::string field_;
  std::unique_ptr<DecoderProcess> process_;  // null: it was given back
  uint64_t samples_ = 0;                     // that have come
  double waited_ = 0;                        // seconds
  double allowed_for_ = 0;                   // seconds_made() when processor time was allowed
  std::vector<std::string> warnings_;
  double length_ = 0;
};

}  // namespace tandem
