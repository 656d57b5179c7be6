#include "runtime/media/sound/audio_file.h"

#include <samplerate.h>
#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/printable.h"
#include "runtime/media/sound/vorbis_headers.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

constexpr sf_count_t kBlockFrames = 1 << 14;
// Full scale is 1. Sums of a filter over such samples are finite.
constexpr float kLoudest = 1e6f;
constexpr int kLeastRate = 1000, kMostRate = 768000;

// Bytes as libsndfile reads them.
struct Bytes {
  std::string data;
  sf_count_t at = 0;
};

sf_count_t length(void* user) {
  return static_cast<sf_count_t>(static_cast<Bytes*>(user)->data.size());
}
sf_count_t seek(sf_count_t offset, int whence, void* user) {
  auto& bytes = *static_cast<Bytes*>(user);
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? bytes.at : length(user);
  if (offset < -from || offset > length(user) - from) return -1;
  return bytes.at = from + offset;
}
sf_count_t read_bytes(void* to, sf_count_t count, void* user) {
  auto& bytes = *static_cast<Bytes*>(user);
  count = std::clamp<sf_count_t>(count, 0, length(user) - bytes.at);
  std::memcpy(to, bytes.data.data() + bytes.at, static_cast<size_t>(count));
  bytes.at += count;
  return count;
}
sf_count_t write_nothing(const void*, sf_count_t, void*) { return 0; }
sf_count_t tell(void* user) { return static_cast<Bytes*>(user)->at; }

// Of a RIFF file, whose length libsndfile takes from the file where it says more. Who writes to a
// pipe puts the largest numbers there.
void check_riff(const std::array<unsigned char, 12>& head, uint64_t size,
                const std::string& field) {
  if (size < head.size() || std::memcmp(head.data(), "RIFF", 4) != 0) return;
  uint64_t says = 8;
  for (size_t i = 0; i < 4; ++i) says += uint64_t{head[4 + i]} << (8 * i);
  constexpr uint64_t kUnknown = 0x7fff0000;
  if (says > size && says < kUnknown)
    throw invalid_request(field, "is cut: it says it has " + std::to_string(says) +
                                     " bytes, and has " + std::to_string(size));
}

}  // namespace

struct AudioFile::State {
  const std::string field;
  const int rate;
  const AudioLimits limits;
  Bytes bytes;
  SF_INFO info = {};
  SNDFILE* file = nullptr;
  SRC_STATE* resampler = nullptr;
  sf_count_t frames = 0;  // read so far
  bool ended = false;
  std::vector<float> block, mono;  // as they are in the file; their mean

  State(const std::string& field_, int rate_, const AudioLimits& limits_)
      : field(field_), rate(rate_), limits(limits_) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (file != nullptr) sf_close(file);
    if (resampler != nullptr) src_delete(resampler);
  }
  bool is_mp3() const { return (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG; }
  [[noreturn]] void fail(const std::string& why) const { throw invalid_request(field, why); }
  void check_seconds(sf_count_t count) const {
    const double seconds = static_cast<double>(count) / info.samplerate;
    if (seconds > limits.seconds)
      throw InputError(ErrorKind::kResource,
                       field + ": has " + std::to_string(std::llround(seconds)) +
                           " seconds of sound, more than the " +
                           std::to_string(std::llround(limits.seconds)) + " that are taken",
                       field);
  }
  void read_block();
  void resample(std::vector<float>& out);
};

AudioFile::AudioFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
AudioFile::AudioFile(AudioFile&&) noexcept = default;
AudioFile::~AudioFile() = default;

void AudioFile::check_header(const State& s) {
  if (s.file == nullptr)
    s.fail("is no sound that can be read (" + printable(sf_strerror(nullptr)) + ")");
  const SF_INFO& info = s.info;
  if (info.channels < 1 || info.channels > s.limits.channels)
    s.fail("has " + std::to_string(info.channels) + " channels, from 1 to " +
           std::to_string(s.limits.channels) + " are taken");
  if (info.samplerate < kLeastRate || info.samplerate > kMostRate)
    s.fail("has " + std::to_string(info.samplerate) + " samples a second, from " +
           std::to_string(kLeastRate) + " to " + std::to_string(kMostRate) + " are taken");
  // Streams may not know it; MP3s guess.
  if (info.frames != SF_COUNT_MAX && !s.is_mp3()) s.check_seconds(info.frames);
}

AudioFile AudioFile::open(const fs::path& path, const std::string& field, int rate,
                          const AudioLimits& limits) {
  auto state = std::make_unique<State>(field, rate, limits);
  std::error_code error;
  if (!fs::exists(path, error)) state->fail("there is no file " + printable(path.string()));
  if (!fs::is_regular_file(path, error)) state->fail(printable(path.string()) + " is no file");
  std::array<unsigned char, 12> head{};
  std::ifstream in(path, std::ios::binary);
  if (!in) state->fail("cannot read " + printable(path.string()));
  in.read(reinterpret_cast<char*>(head.data()), head.size());
  check_riff(head, fs::file_size(path, error), field);
  const auto read = [&](uint64_t at, char* to, size_t count) {
    in.clear();
    in.seekg(static_cast<std::streamoff>(at));
    in.read(to, static_cast<std::streamsize>(count));
    return static_cast<size_t>(in.gcount());
  };
  check_vorbis_headers(read, field);
  state->file = sf_open(path.c_str(), SFM_READ, &state->info);
  check_header(*state);
  return AudioFile(std::move(state));
}

AudioFile AudioFile::of_bytes(std::string bytes, const std::string& field, int rate,
                              const AudioLimits& limits) {
  auto state = std::make_unique<State>(field, rate, limits);
  std::array<unsigned char, 12> head{};
  std::memcpy(head.data(), bytes.data(), std::min(bytes.size(), head.size()));
  check_riff(head, bytes.size(), field);
  const auto read = [&](uint64_t at, char* to, size_t count) {
    return at < bytes.size() ? bytes.copy(to, count, at) : 0;
  };
  check_vorbis_headers(read, field);
  state->bytes.data = std::move(bytes);
  SF_VIRTUAL_IO io{length, seek, read_bytes, write_nothing, tell};
  state->file = sf_open_virtual(&io, SFM_READ, &state->info, &state->bytes);
  check_header(*state);
  return AudioFile(std::move(state));
}

// The mean of the channels of the next frames; none at the end.
void AudioFile::State::read_block() {
  const auto channels = static_cast<size_t>(info.channels);
  block.resize(static_cast<size_t>(kBlockFrames) * channels);
  const sf_count_t got = std::max<sf_count_t>(sf_readf_float(file, block.data(), kBlockFrames), 0);
  if (sf_error(file) != SF_ERR_NO_ERROR)
    fail("cannot be decoded behind sample " + std::to_string(frames) + " (" +
         printable(sf_strerror(file)) + ")");
  mono.assign(static_cast<size_t>(got), 0.0f);
  for (size_t i = 0; i < mono.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < channels; ++c) sum += double{block[i * channels + c]};
    mono[i] = static_cast<float>(sum / static_cast<double>(channels));
    if (!(std::fabs(mono[i]) <= kLoudest))
      fail("sample " + std::to_string(frames + static_cast<sf_count_t>(i)) +
           " is not finite, or a million times too loud");
  }
  frames += got;
  check_seconds(frames);
  ended = got == 0;
  if (!ended) return;
  if (frames == 0) fail("has no samples");
  if (frames < info.frames && info.frames != SF_COUNT_MAX && !is_mp3())
    fail("is cut: it says it has " + std::to_string(info.frames) + " samples, and has " +
         std::to_string(frames));
}

void AudioFile::State::resample(std::vector<float>& out) {
  int error = 0;
  if (resampler == nullptr) resampler = src_new(SRC_SINC_MEDIUM_QUALITY, 1, &error);
  if (resampler == nullptr) fail(printable(src_strerror(error)));
  const double ratio = static_cast<double>(rate) / info.samplerate;
  SRC_DATA data{};
  data.src_ratio = ratio;
  data.end_of_input = ended ? 1 : 0;
  data.data_in = mono.data();
  data.input_frames = static_cast<long>(mono.size());
  std::vector<float> part(static_cast<size_t>(static_cast<double>(mono.size()) * ratio) + 1024);
  do {
    data.data_out = part.data();
    data.output_frames = static_cast<long>(part.size());
    error = src_process(resampler, &data);
    if (error != 0) fail(printable(src_strerror(error)));
    out.insert(out.end(), part.begin(), part.begin() + data.output_frames_gen);
    data.data_in += data.input_frames_used;
    data.input_frames -= data.input_frames_used;
  } while (data.output_frames_gen > 0 || data.input_frames_used > 0);
}

double AudioFile::seconds() const {
  return static_cast<double>(state_->frames) / state_->info.samplerate;
}

bool AudioFile::read(std::vector<float>& samples) {
  State& s = *state_;
  samples.clear();
  while (samples.empty() && !s.ended) {
    s.read_block();
    if (s.info.samplerate == s.rate)
      samples = s.mono;
    else
      s.resample(samples);
  }
  return !samples.empty();
}

}  // namespace tandem
