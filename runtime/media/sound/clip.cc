#include "runtime/media/sound/clip.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"

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

}  // namespace

ClipOptions ClipOptions::load(const std::filesystem::path& directory) {
  ClipOptions out;
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

LogMel read_clip(AudioFile& file, const ClipOptions& options, const std::string& field) {
  LogMel out;
  out.bins = 1;
  for (std::vector<float> samples; file.read(samples);) {
    out.values.insert(out.values.end(), samples.begin(), samples.end());
    if (std::ssize(out.values) > options.most)
      throw InputError(ErrorKind::kResource,
                       field + ": is longer than " + seconds(options.most, options.sampling_rate) +
                           " seconds, the most that the model hears: it hears a clip as a whole",
                       field);
  }
  out.frames = std::ssize(out.values);
  if (out.frames < options.fewest)
    throw invalid_request(field, "has " + std::to_string(out.frames) + " samples at " +
                                     std::to_string(options.sampling_rate) +
                                     " a second, fewer than the " + std::to_string(options.fewest) +
                                     " that the model hears");
  out.seconds = static_cast<double>(out.frames) / options.sampling_rate;
  if (options.normalize) normalize(out.values);
  return out;
}

}  // namespace tandem
