#include "runtime/media/sound/voice/voice_source.h"

namespace tandem {

VoiceSource::VoiceSource(const std::string& file) {
  if (!file.empty()) weights_ = VoiceWeights::load(file);
}

std::shared_ptr<const VoiceWeights> VoiceSource::weights() const {
  const MutexLock lock(mutex_);
  if (weights_) return weights_;
  if (const auto file = VoiceWeights::find_installed()) weights_ = VoiceWeights::load(*file);
  return weights_;
}

}  // namespace tandem
