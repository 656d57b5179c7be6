// Where the network of voice activity comes from: a file that the user names, or one that is
// installed. Any thread.
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "runtime/media/sound/voice/voice_network.h"

namespace tandem {

class VoiceSource {
 public:
  // `file`: read now; throws what VoiceWeights::load() does. "": the installed one is looked for
  // when it is first needed.
  explicit VoiceSource(const std::string& file);
  // Null: there is none. It is looked for again the next time.
  std::shared_ptr<const VoiceWeights> weights() const;

 private:
  mutable Mutex mutex_;
  mutable std::shared_ptr<const VoiceWeights> weights_ GUARDED_BY(mutex_);
};

}  // namespace tandem
