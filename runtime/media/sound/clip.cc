#include "runtime/media/sound/clip.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/json_fields.h"

namespace tandem {
namespace {

std::string seconds(int64_t samples, int rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", static_cast<double>(samples) / rate);
  return text;
}

void normalize(std::vector<float>& samples) {
  const auto count = static_cast<double>(samples.size());
  double mean = 0, variance = 0;
  for (const float x : samples) mean += double{x} / count;
  for (const float x : samples) variance += (double{x} - mean) * (double{x} - mean) / count;
  const double factor = 1 / std::sqrt(variance + 1e-7);
  for (float& x : samples) x = static_cast<float>((double{x} - mean) * factor);
}

// Frames of whole samples; what is left over is silence.
LogMel framed(std::vector<float> samples, int64_t width) {
  LogMel out;
  out.bins = static_cast<int>(width);
  const auto count = std::ssize(samples);
  out.frames = (count + width - 1) / width;
  out.values = std::move(samples);
  out.values.resize(static_cast<size_t>(count / width * width));
  out.values.resize(static_cast<size_t>(out.frames * width), 0.0f);
  return out;
}

int64_t most_samples(const ClipOptions& o) {
  if (o.most == std::numeric_limits<int64_t>::max()) return o.most;
  return o.spectrum ? o.samples_of(o.most + 1) - 1 : o.samples_of(o.most);
}

std::vector<float> read_samples(AudioFile& file, const ClipOptions& options,
                                const std::string& field) {
  std::vector<float> out;
  const int64_t most = most_samples(options);
  for (std::vector<float> samples; file.read(samples);) {
    out.insert(out.end(), samples.begin(), samples.end());
    if (std::ssize(out) > most)
      throw InputError(ErrorKind::kResource,
                       field + ": is longer than " + seconds(most, options.sampling_rate) +
                           " seconds, the most that the model hears: it hears a clip as a whole",
                       field);
  }
  const int64_t fewest = options.samples_of(options.fewest);
  if (std::ssize(out) < fewest)
    throw invalid_request(field, "has " + std::to_string(out.size()) + " samples at " +
                                     std::to_string(options.sampling_rate) +
                                     " a second, fewer than the " + std::to_string(fewest) +
                                     " that the model hears");
  return out;
}

}  // namespace

ClipOptions ClipOptions::load(const std::filesystem::path& directory, SoundInput input, int width) {
  ClipOptions out;
  if (input != SoundInput::kSamples) {
    out.spectrum = SpectrumOptions::load(directory, input);
    out.sampling_rate = out.spectrum->sampling_rate;
    return out;
  }
  out.frame_samples = width;
  const std::filesystem::path file = directory / "preprocessor_config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return out;
  const nlohmann::json config = load_python_json(file);
  out.normalize = true;
  try {
    if (const auto it = config.find("sampling_rate"); it != config.end() && !it->is_null())
      out.sampling_rate = static_cast<int>(read_int(*it, "sampling_rate", 8000, 192000));
    if (const auto it = config.find("do_normalize"); it != config.end() && !it->is_null())
      out.normalize = read_bool(*it, "do_normalize");
  } catch (const InputError& e) {
    throw invalid_model(file.string(), e.what());
  }
  return out;
}

int64_t ClipOptions::samples_of(int64_t frames) const {
  return spectrum ? spectrum->samples_of(frames) : frames * frame_samples;
}

LogMel read_clip(AudioFile& file, const ClipOptions& options, const std::string& field) {
  std::vector<float> samples = read_samples(file, options, field);
  const auto count = static_cast<double>(samples.size());
  if (!options.spectrum && options.normalize) normalize(samples);
  LogMel out = options.spectrum ? spectrum_of(samples, *options.spectrum)
                                : framed(std::move(samples), options.frame_samples);
  out.seconds = count / options.sampling_rate;
  return out;
}

}  // namespace tandem
