#include "runtime/media/sound/speech_input.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "runtime/media/sound/windows/clip_times.h"

namespace tandem {
namespace {

constexpr int kLeastChunk = 5;  // seconds

// Python's round(), of halves to the even one.
int64_t samples_of(double seconds, const LogMelOptions& mel) {
  return std::llrint(seconds * mel.sampling_rate);
}

// Samples come in, chunks go out.
class Chunker {
 public:
  Chunker(const LogMelOptions& mel, const ChunkLengths& lengths) : mel_(mel), lengths_(lengths) {}

  void add(std::span<const float> samples) {
    buffer_.insert(buffer_.end(), samples.begin(), samples.end());
    // One sample more says that the chunk is not the last one.
    while (std::ssize(buffer_) > lengths_.chunk) cut(lengths_.chunk, /*last=*/false);
  }

  SpeechInput finish() {
    cut(std::ssize(buffer_), /*last=*/true);
    return std::move(out_);
  }

 private:
  double seconds(int64_t samples) const {
    return static_cast<double>(samples) / mel_.sampling_rate;
  }

  void cut(int64_t length, bool last) {
    const int64_t left = first_ ? 0 : lengths_.left, right = last ? 0 : lengths_.right;
    if (length > left || first_) {
      LogMelMaker maker(mel_);
      maker.add(std::span<const float>(buffer_).first(static_cast<size_t>(length)));
      if (const int64_t missing = mel_.chunk_samples() - length; missing > 0)
        maker.add(std::vector<float>(static_cast<size_t>(missing)));
      LogMel mel = maker.finish();
      mel.seconds = seconds(length);
      trim(mel);
      out_.pieces.push_back({std::move(mel), seconds(length), seconds(left), seconds(right)});
    }
    first_ = false;
    const int64_t step = lengths_.chunk - lengths_.left - lengths_.right;
    buffer_.erase(buffer_.begin(), buffer_.begin() + (last ? length : step));
  }

  const LogMelOptions& mel_;
  ChunkLengths lengths_;
  std::vector<float> buffer_;  // from the next chunk's first sample on
  bool first_ = true;
  SpeechInput out_;
};

void find_speech(AudioFile& file, const SpeechSettings& settings,
                 const proto::SpeechParams& params) {
  const bool can = settings.mel.sampling_rate == VoiceNetwork::kRate;
  const auto weights = can && settings.voice ? settings.voice->weights() : nullptr;
  if (weights) return file.keep_speech(weights, VoiceOptions::of(params));
  if (params.vad_if_possible()) return;
  if (!can)
    throw not_supported("vad_filter", "the model hears sound at " +
                                          std::to_string(settings.mel.sampling_rate) +
                                          " samples a second instead of 16000");
  throw not_supported(
      "vad_filter",
      "there is no network that finds speech here: pip install --no-deps silero-vad, or "
      "--vad-model FILE");
}

}  // namespace

ChunkLengths ChunkLengths::of(const proto::SpeechParams& params, const LogMelOptions& mel) {
  const double seconds = params.chunk_length_s();
  if (!(seconds > 0)) {
    if (!params.stride_length_s().empty())
      throw invalid_request("stride_length_s", "needs chunk_length_s");
    return {};
  }
  // (Each chunk costs as much as a whole window.)
  const int least = std::min(kLeastChunk, mel.chunk_length);
  if (seconds < least || seconds > mel.chunk_length)
    throw invalid_request("chunk_length_s", "must be 0, or between " + std::to_string(least) +
                                                " and the model's window of " +
                                                std::to_string(mel.chunk_length) + " seconds");
  const auto& strides = params.stride_length_s();
  const double left = strides.empty() ? seconds / 6 : strides[0];
  const double right = strides.size() > 1 ? strides[1] : left;
  ChunkLengths out{samples_of(seconds, mel), samples_of(left, mel), samples_of(right, mel)};
  // (Memory is three times that of the sound, at most.)
  if (3 * (out.left + out.right) > 2 * out.chunk)
    throw invalid_request("stride_length_s",
                          "together they must not be more than two thirds of chunk_length_s");
  return out;
}

SpeechInput read_speech(AudioFile& file, const SpeechSettings& settings, const std::string& field,
                        const proto::SpeechParams& params) {
  const LogMelOptions& mel = settings.mel;
  if (settings.clip && params.chunk_length_s() > 0)
    throw not_supported("chunk_length_s", "the model hears a clip as a whole");
  const ChunkLengths lengths = ChunkLengths::of(params, mel);
  // (Who names the parts has found the speech.)
  const bool filters = params.vad_filter() && !names_clips(params);
  if (filters) find_speech(file, settings, params);
  SpeechInput out;
  // (Without keep_speech() a file without samples is an error.)
  const bool silent = !file.has_samples();
  if (!silent && lengths.chunk == 0) {
    LogMel all = settings.frames_of(file, field);
    // (All that is made for the model has other samples: of its rate, and whole frames.)
    const double length = filters ? all.seconds : file.seconds();
    out.pieces.push_back({std::move(all), length});
  } else if (!silent) {
    Chunker chunker(mel, lengths);
    for (std::vector<float> samples; file.read(samples);) chunker.add(samples);
    out = chunker.finish();
  }
  out.seconds = file.seconds();
  out.warnings = file.warnings();
  out.speech = file.speech();
  return out;
}

}  // namespace tandem
