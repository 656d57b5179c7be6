#include "runtime/media/sound/log_mel.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <system_error>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/json_fields.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

constexpr double kHighestFrequency = 8000;  // as there, whatever the rate

}  // namespace

LogMelOptions LogMelOptions::load(const fs::path& directory) {
  LogMelOptions out;
  const fs::path file = directory / "preprocessor_config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return out;
  const nlohmann::json config = load_python_json(file);
  const auto read = [&](const char* key, int64_t lo, int64_t hi, int& value) {
    const auto it = config.find(key);
    if (it == config.end() || it->is_null()) return;
    try {
      value = static_cast<int>(read_int(*it, key, lo, hi));
    } catch (const InputError& e) {
      throw invalid_model(file.string(), e.what());
    }
  };
  read("feature_size", 1, 1024, out.bins);
  read("sampling_rate", 8000, 192000, out.sampling_rate);
  read("n_fft", 16, 8192, out.n_fft);
  read("hop_length", 1, out.n_fft, out.hop_length);
  read("chunk_length", 1, 3600, out.chunk_length);
  return out;
}

LogMelMaker::LogMelMaker(const LogMelOptions& options)
    : options_(options), fourier_(static_cast<size_t>(options.n_fft)) {
  const int n = options.n_fft;
  for (int i = 0; i < n; ++i)  // Hann's, periodic
    window_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / n));
  filters_ = slaney_filters(options.bins, n / 2 + 1, kHighestFrequency, options.sampling_rate);
}

void LogMelMaker::add(std::span<const float> samples) {
  buffer_.insert(buffer_.end(), samples.begin(), samples.end());
  samples_ += static_cast<int64_t>(samples.size());
  const auto half = static_cast<size_t>(options_.n_fft / 2);
  if (!mirrored_) {
    if (buffer_.size() <= half) return;
    std::vector<float> before(buffer_.begin() + 1, buffer_.begin() + 1 + static_cast<long>(half));
    std::reverse(before.begin(), before.end());
    buffer_.insert(buffer_.begin(), before.begin(), before.end());
    mirrored_ = true;
  }
  const auto size = static_cast<int64_t>(buffer_.size());
  if (size < options_.n_fft) return;
  const int64_t whole = (size - options_.n_fft) / options_.hop_length + 1;
  // In pairs, always the same ones: what a frame is does not depend on how samples came. What may
  // be mirrored at the end stays.
  const int64_t kept = (options_.n_fft + options_.hop_length - 1) / options_.hop_length + 1;
  if (whole > kept) frames((whole - kept) / 2 * 2);
}

// The next ones, whose samples are there.
void LogMelMaker::frames(int64_t count) {
  const auto n = static_cast<size_t>(options_.n_fft),
             hop = static_cast<size_t>(options_.hop_length);
  std::vector<double> frame[2] = {std::vector<double>(n), std::vector<double>(n)};
  std::vector<double> power[2] = {std::vector<double>(n / 2 + 1), std::vector<double>(n / 2 + 1)};
  const auto level = [](double energy) {
    return static_cast<float>(std::log10(std::max(energy, 1e-10)));
  };
  size_t at = 0;
  for (int64_t i = 0; i < count; i += 2) {
    const int both = i + 1 < count ? 2 : 1;
    const auto samples = std::span(buffer_).subspan(at, n + (both == 2 ? hop : 0));
    // Most of a window may be filled up with silence.
    if (std::ranges::all_of(samples, [](float x) { return x == 0; })) {
      values_.insert(values_.end(), static_cast<size_t>(both) * filters_.size(), level(0));
      at += static_cast<size_t>(both) * hop;
      continue;
    }
    for (int f = 0; f < both; ++f, at += hop)
      for (size_t k = 0; k < n; ++k) frame[f][k] = window_[k] * double{buffer_[at + k]};
    fourier_.power(frame[0],
                   both == 2 ? std::span<const double>(frame[1]) : std::span<const double>(),
                   power[0], power[1]);
    for (int f = 0; f < both; ++f)
      for (const MelFilter& filter : filters_) values_.push_back(level(filter.apply(power[f])));
  }
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<long>(at));
  frames_ += count;
}

LogMel LogMelMaker::finish() {
  const auto half = static_cast<size_t>(options_.n_fft / 2);
  TANDEM_CHECK(mirrored_, "too few samples");
  std::vector<float> behind(buffer_.end() - 1 - static_cast<long>(half), buffer_.end() - 1);
  std::reverse(behind.begin(), behind.end());
  buffer_.insert(buffer_.end(), behind.begin(), behind.end());
  frames(samples_ / options_.hop_length - frames_);
  LogMel out{options_.bins, frames_, 0, std::move(values_)};
  const float loudest =
      out.values.empty() ? 0.0f : *std::max_element(out.values.begin(), out.values.end());
  for (float& x : out.values) x = (std::max(x, loudest - 8.0f) + 4.0f) / 4.0f;
  out.seconds = static_cast<double>(samples_) / options_.sampling_rate;
  return out;
}

void trim(LogMel& mel) {
  const auto row = static_cast<size_t>(mel.bins);
  size_t rows = row > 0 ? mel.values.size() / row : 0;
  const auto at = [&](size_t i) { return mel.values.begin() + static_cast<long>(i * row); };
  while (rows > 1 && std::equal(at(rows - 2), at(rows - 1), at(rows - 1))) --rows;
  mel.values.resize(rows * row);
  mel.values.shrink_to_fit();
}

LogMel read_log_mel(AudioFile& file, const LogMelOptions& options) {
  LogMelMaker maker(options);
  for (std::vector<float> samples; file.read(samples);) maker.add(samples);
  const int64_t samples = maker.samples(), missing = options.chunk_samples() - samples;
  if (missing > 0) maker.add(std::vector<float>(static_cast<size_t>(missing)));
  LogMel out = maker.finish();
  out.seconds = static_cast<double>(samples) / options.sampling_rate;
  return out;
}

}  // namespace tandem
