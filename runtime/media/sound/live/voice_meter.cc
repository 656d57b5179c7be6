#include "runtime/media/sound/live/voice_meter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/media/sound/live/resampler.h"

namespace tandem {
namespace {

class NetworkMeter final : public VoiceMeter {
 public:
  NetworkMeter(std::shared_ptr<const VoiceWeights> weights, int rate)
      : network_(std::move(weights)) {
    if (rate != VoiceNetwork::kRate) resampler_.emplace(rate, VoiceNetwork::kRate);
  }

  void add(std::span<const int16_t> samples, std::vector<float>& out) override {
    std::vector<float> sound(samples.size());
    std::transform(samples.begin(), samples.end(), sound.begin(),
                   [](int16_t s) { return static_cast<float>(s) / 32768; });
    if (resampler_)
      resampler_->add(sound, waiting_);
    else
      waiting_.insert(waiting_.end(), sound.begin(), sound.end());
    const size_t whole = waiting_.size() / VoiceNetwork::kWindow * VoiceNetwork::kWindow;
    network_.add({waiting_.data(), whole}, out);
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<long>(whole));
  }

 private:
  VoiceNetwork network_;
  std::optional<Resampler> resampler_;
  std::vector<float> waiting_;  // less than a window
};

class LoudnessMeter final : public VoiceMeter {
 public:
  explicit LoudnessMeter(int rate) : window_(static_cast<size_t>(rate) * kWindowMs / 1000) {}

  void add(std::span<const int16_t> samples, std::vector<float>& out) override {
    for (const int16_t sample : samples) {
      energy_ += static_cast<double>(sample) * sample;
      if (++count_ < window_) continue;
      out.push_back(probability(
          10 * std::log10(energy_ / static_cast<double>(count_) / (32768.0 * 32768.0) + 1e-12)));
      energy_ = 0;
      count_ = 0;
    }
  }

 private:
  static constexpr double kOverQuiet = 12, kLeast = -50;  // dB
  static constexpr double kRise = 0.03;                   // dB a window: a minute for 56 dB

  float probability(double level) {
    quiet_ = std::min(level, quiet_ + kRise);
    const double over = level - std::max(quiet_ + kOverQuiet, kLeast);
    return static_cast<float>(1 / (1 + std::exp(-over / 2)));
  }

  size_t window_, count_ = 0;
  double energy_ = 0;
  double quiet_ = -70;
};

}  // namespace

std::unique_ptr<VoiceMeter> make_voice_meter(std::shared_ptr<const VoiceWeights> weights,
                                             int rate) {
  TANDEM_CHECK(rate > 0 && rate % 125 == 0);
  if (weights != nullptr) return std::make_unique<NetworkMeter>(std::move(weights), rate);
  return std::make_unique<LoudnessMeter>(rate);
}

}  // namespace tandem
