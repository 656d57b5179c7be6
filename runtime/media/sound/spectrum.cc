#include "runtime/media/sound/spectrum.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "runtime/media/sound/fourier.h"
#include "runtime/media/sound/mel_scale.h"
#include "runtime/media/sound/seeded_noise.h"
#include "runtime/protocol/json/json_fields.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

constexpr double kKaldiFloor = 1.192092955078125e-07;
constexpr double kKaldiLoudest = 32768;  // of samples
constexpr double kGuard = 0x1p-24;       // against the logarithm of nothing
constexpr double kDeviationFloor = 1e-5;

bool is_kaldi(const SpectrumOptions& o) { return o.input == SoundInput::kFilterBanks; }

// Symmetric; Kaldi's, a Hann window to the power of 0.85, is called Povey's.
std::vector<double> window_of(const SpectrumOptions& o) {
  std::vector<double> out;
  const int last = std::max(o.window_length - 1, 1);
  for (int i = 0; i < o.window_length; ++i) {
    const double hann = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / last);
    out.push_back(is_kaldi(o) ? std::pow(std::max(hann, 0.0), 0.85)
                              : double{static_cast<float>(hann)});
  }
  return out;
}

// Samples as the windows see them: sample i of the clip, from -window_length on.
class Source {
 public:
  Source(std::span<const float> samples, const SpectrumOptions& o) : samples_(samples), o_(o) {}

  // The window's frame, n_fft values.
  void frame(int64_t index, std::span<const double> window, std::span<double> out) const {
    std::fill(out.begin(), out.end(), 0.0);
    if (is_kaldi(o_))
      kaldi_frame(index * o_.hop_length, out);
    else
      centred_frame(index * o_.hop_length - o_.n_fft / 2, out);
    const size_t first = is_kaldi(o_) ? 0 : static_cast<size_t>(o_.n_fft - o_.window_length) / 2;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = i >= first && i < first + window.size() ? out[i] * window[i - first] : 0.0;
  }

 private:
  // Each frame for itself: without its mean, with emphasis on high tones.
  void kaldi_frame(int64_t begin, std::span<double> out) const {
    const auto length = static_cast<size_t>(o_.window_length);
    double mean = 0;
    for (size_t i = 0; i < length; ++i) {
      out[i] = double{samples_[static_cast<size_t>(begin) + i]} * kKaldiLoudest;
      mean += out[i];
    }
    mean /= static_cast<double>(length);
    for (size_t i = length; i-- > 1;)
      out[i] = (out[i] - mean) - o_.preemphasis * (out[i - 1] - mean);
    out[0] = (out[0] - mean) * (1 - o_.preemphasis);
  }
  // Emphasis is over the clip, in floats; there is silence around it.
  void centred_frame(int64_t begin, std::span<double> out) const {
    const auto emphasis = static_cast<float>(o_.preemphasis);
    for (int64_t i = 0; i < std::ssize(out); ++i) {
      const int64_t at = begin + i;
      if (at < 0 || at >= std::ssize(samples_)) continue;
      const float before = at > 0 ? samples_[static_cast<size_t>(at - 1)] : 0.0f;
      out[static_cast<size_t>(i)] = double{samples_[static_cast<size_t>(at)] - emphasis * before};
    }
  }

  std::span<const float> samples_;
  const SpectrumOptions& o_;
};

float loudness(double power, const SpectrumOptions& o) {
  return static_cast<float>(is_kaldi(o) ? std::log(std::max(power, kKaldiFloor))
                                        : std::log(power + kGuard));
}

// Noise that the length alone determines, so that a clip is the same in any batch.
std::vector<float> with_noise(std::span<const float> samples, double dither) {
  std::vector<float> out = seeded_noise(std::ssize(samples), static_cast<uint32_t>(samples.size()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = samples[i] + static_cast<float>(dither) * out[i];
  return out;
}

struct Moments {
  double mean = 0, deviation = 0;
};

// Of one bin over all frames. freedom: what the sum of squares is divided by less than the frames.
Moments moments_of(const LogMel& spectrum, int bin, int64_t freedom) {
  Moments out;
  const auto at = [&](int64_t t) {
    return double{spectrum.values[static_cast<size_t>(t * spectrum.bins + bin)]};
  };
  const auto frames = static_cast<double>(spectrum.frames);
  for (int64_t t = 0; t < spectrum.frames; ++t) out.mean += at(t) / frames;
  double squares = 0;
  for (int64_t t = 0; t < spectrum.frames; ++t) squares += (at(t) - out.mean) * (at(t) - out.mean);
  out.deviation = std::sqrt(squares / std::max(frames - static_cast<double>(freedom), 1.0));
  return out;
}

void normalize(LogMel& spectrum, const SpectrumOptions& o) {
  for (int bin = 0; bin < spectrum.bins; ++bin) {
    const Moments m = moments_of(spectrum, bin, is_kaldi(o) ? 0 : 1);
    double divisor = m.deviation + kDeviationFloor;
    if (is_kaldi(o)) divisor = !o.normalize_deviations || m.deviation == 0 ? 1 : m.deviation;
    const double mean = !is_kaldi(o) || o.normalize_means ? m.mean : 0;
    for (int64_t t = 0; t < spectrum.frames; ++t) {
      float& x = spectrum.values[static_cast<size_t>(t * spectrum.bins + bin)];
      x = static_cast<float>((double{x} - mean) / divisor);
    }
  }
}

std::vector<MelFilter> filters_of(const SpectrumOptions& o) {
  const int points = o.n_fft / 2 + 1;
  return is_kaldi(o) ? kaldi_filters(o.bins, points, 20, o.sampling_rate)
                     : slaney_filters(o.bins, points, static_cast<double>(o.sampling_rate) / 2,
                                      o.sampling_rate);
}

}  // namespace

SpectrumOptions SpectrumOptions::load(const fs::path& directory, SoundInput input) {
  SpectrumOptions out;
  out.input = input;
  const fs::path file = directory / "preprocessor_config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return out;
  const nlohmann::json config = load_python_json(file);
  const auto with = [&](const char* key, const auto& f) {
    const auto it = config.find(key);
    if (it == config.end() || it->is_null()) return;
    try {
      f(*it, key);
    } catch (const InputError& e) {
      throw invalid_model(file.string(), e.what());
    }
  };
  const auto size = [&](const char* name, int64_t lo, int64_t hi, int& value) {
    with(name, [&](const nlohmann::json& v, const char* key) {
      value = static_cast<int>(read_int(v, key, lo, hi));
    });
  };
  const auto flag = [&](const char* name, bool& value) {
    with(name, [&](const nlohmann::json& v, const char* key) { value = read_bool(v, key); });
  };
  size("sampling_rate", 8000, 192000, out.sampling_rate);
  with("dither", [&](const nlohmann::json& v, const char* key) {
    const double dither = read_number(v, key, {});
    if (dither > 0 && input == SoundInput::kFilterBanks)
      throw invalid_request(key, "is above 0: noise without a seed is not supported");
    out.dither = std::max(dither, 0.0);
  });
  if (input == SoundInput::kFilterBanks) {
    size("num_mel_bins", 1, 1024, out.bins);
    flag("normalize_means", out.normalize_means);
    flag("normalize_vars", out.normalize_deviations);
    bool normalize = true;
    flag("do_ceptral_normalize", normalize);
    if (!normalize) out.normalize_means = out.normalize_deviations = false;
    return out;
  }
  size("feature_size", 1, 1024, out.bins);
  size("n_fft", 16, 8192, out.n_fft);
  size("win_length", 2, out.n_fft, out.window_length);
  size("hop_length", 1, out.n_fft, out.hop_length);
  with("preemphasis", [&](const nlohmann::json& v, const char* key) {
    out.preemphasis = read_number(v, key, {0.0, 1.0});
  });
  if (config.contains("preemphasis") && config["preemphasis"].is_null()) out.preemphasis = 0;
  return out;
}

int64_t SpectrumOptions::frames_of(int64_t samples) const {
  if (input == SoundInput::kSpectrum) return samples / hop_length;
  return samples < window_length ? 0 : (samples - window_length) / hop_length + 1;
}

int64_t SpectrumOptions::samples_of(int64_t frames) const {
  if (input == SoundInput::kSpectrum) return frames * hop_length;
  return window_length + (frames - 1) * hop_length;
}

LogMel spectrum_of(std::span<const float> clip, const SpectrumOptions& options) {
  std::vector<float> noisy;
  if (options.dither > 0) noisy = with_noise(clip, options.dither);
  const std::span<const float> samples = noisy.empty() ? clip : noisy;
  LogMel out;
  out.bins = options.bins;
  out.frames = options.frames_of(std::ssize(samples));
  TANDEM_CHECK_GE(out.frames, 1);
  out.values.reserve(static_cast<size_t>(out.frames * out.bins));
  const std::vector<double> window = window_of(options);
  const std::vector<MelFilter> filters = filters_of(options);
  const Source source(samples, options);
  const auto size = static_cast<size_t>(options.n_fft);
  Fourier fourier(size);
  std::vector<double> frame[2] = {std::vector<double>(size), std::vector<double>(size)};
  std::vector<double> power[2] = {std::vector<double>(size / 2 + 1),
                                  std::vector<double>(size / 2 + 1)};
  for (int64_t t = 0; t < out.frames; t += 2) {
    const int both = t + 1 < out.frames ? 2 : 1;
    for (int f = 0; f < both; ++f) source.frame(t + f, window, frame[f]);
    fourier.power(frame[0], both == 2 ? std::span<const double>(frame[1]) : std::span<double>(),
                  power[0], power[1]);
    for (int f = 0; f < both; ++f)
      for (const MelFilter& filter : filters)
        out.values.push_back(loudness(filter.apply(power[f]), options));
  }
  normalize(out, options);
  return out;
}

}  // namespace tandem
