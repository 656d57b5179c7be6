#include "launcher/usage/short_help.h"

#include <algorithm>
#include <utility>

namespace tandem::launcher {
namespace {

// Names without their dashes, with blanks between.
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"tandem generate",
     "model input lines jsonl max-new-tokens source-lang target-lang num-beams do-sample "
     "temperature top-p seed dtype device threads connect"},
    {"tandem summarize",
     "model output-dir max-new-tokens num-beams split merge task dtype device threads connect"},
    {"tandem translate",
     "model from to output-dir max-new-tokens num-beams split dtype device threads connect"},
    {"tandem read", "model format max-new-tokens num-beams dtype device threads connect"},
    {"tandem score",
     "model input jsonl source-lang target-lang no-eos dtype device threads connect"},
    {"tandem classify",
     "model input lines jsonl text-pair labels hypothesis-template multi-label "
     "truncate-prompt-tokens dtype device threads connect"},
    {"tandem answer", "model input jsonl truncate-prompt-tokens dtype device threads connect"},
    {"tandem embed",
     "model input lines jsonl pooling normalize source-lang truncate-prompt-tokens dtype device "
     "threads connect"},
    {"tandem transcribe",
     "model format output-dir language task timestamps prompt temperature-fallback "
     "no-speech-threshold num-beams dtype device threads connect"},
    {"tandem serve",
     "model host port served-model-name api-key dtype device threads max-num-seqs kv-cache-memory "
     "gpu-memory-utilization tensor-parallel-size data-parallel-size config"},
    {"tandem worker", "connect access-file cpu-binding log-level"},
    {"tandem encode",
     "model input lines jsonl source-lang pooling format output dtype device threads"},
    {"tandem bench serve",
     "base-url backend model api-key dataset-path random-input-len random-output-len num-prompts "
     "request-rate max-concurrency num-warmups save-result"},
    {"tandem bench throughput",
     "model dataset-path random-input-len random-output-len num-prompts dtype device threads "
     "max-num-seqs connect save-result"},
    {"tandem bench latency",
     "model dataset-path random-input-len random-output-len batch-size num-iters dtype device "
     "threads save-result"},
};

}  // namespace

std::vector<std::string> short_help_flags(std::string_view command) {
  std::vector<std::string> out;
  for (auto [name, flags] : kShort) {
    if (name != command) continue;
    while (!flags.empty()) {
      const size_t end = std::min(flags.find(' '), flags.size());
      out.push_back("--" + std::string(flags.substr(0, end)));
      flags.remove_prefix(std::min(end + 1, flags.size()));
    }
  }
  return out;
}

}  // namespace tandem::launcher
