// A file of sound, or the sound of a film, read as mono at one rate. The samples are those of
// `ffmpeg -i FILE -ar RATE -ac 1`, as in HuggingFace's pipelines. docs/speech.md names the formats.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/media/media_source.h"
#include "runtime/media/sound/voice/voice_filter.h"

namespace tandem {

// What a file may be. What it says of itself is not believed: it is counted as it is read.
struct AudioLimits {
  double seconds = 4 * 3600;
  int channels = 64;
};

// Reads block by block, so that memory does not grow with the file; a decoder of this process's
// works beside it. Used by one thread.
class AudioFile {
 public:
  // `field` is named in errors. Waits for a decoder. Throws InputError (kUnavailable): there is
  // none.
  static AudioFile open(const MediaSource& source, const std::string& field, int rate,
                        const AudioLimits& limits = {});
  // The bytes of a file.
  static AudioFile of_bytes(std::string_view bytes, const std::string& field, int rate,
                            const AudioLimits& limits = {});
  AudioFile(AudioFile&&) noexcept;
  ~AudioFile();

  // From now on read() leaves out what is no speech. Before the first read(), at
  // VoiceNetwork::kRate.
  void keep_speech(std::shared_ptr<const VoiceWeights> weights, const VoiceOptions& options);
  // Whether there is anything to read; it waits for that. Throws what read() does.
  bool has_samples();

  // The next samples; false: there are no more. Throws InputError if the file is no sound, has no
  // samples or samples that are not finite, has an absurd rate or number of channels, exceeds the
  // limit, or ended the decoder. Damaged parts are skipped.
  bool read(std::vector<float>& samples);
  // How long it is, by the file's own samples and rates; once read() has returned false.
  double seconds() const;

  // Where the speech was that read() returned, once it has returned false. Without keep_speech():
  // none.
  const std::vector<SpeechSpan>& speech() const;

  // What could not be decoded, a few lines for people; complete once read() has returned false.
  const std::vector<std::string>& warnings() const;

 private:
  struct State;
  explicit AudioFile(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tandem
