// Sequences of pre-tokenizers, and the table of those that there are.
#include <utility>

#include "text/pipeline/pre_tokenizers/byte_level.h"
#include "text/pipeline/pre_tokenizers/metaspace.h"
#include "text/pipeline/pre_tokenizers/split_pattern.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void split(std::string_view text, const TextSink& word) const override { run(0, text, word); }

 private:
  // Each word of one step is the text of the next.
  void run(size_t step, std::string_view text, const TextSink& word) const {
    if (step == steps_.size()) {
      if (!text.empty()) word(text);
      return;
    }
    steps_[step]->split(text, [&](std::string_view part) { run(step + 1, part, word); });
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

std::unique_ptr<PreTokenizer> make_split(const JsonView& json, int depth) {
  if (depth > kMaxNesting) json.fail("nested too deeply");
  const JsonView type = json.at("type");
  if (type.string() == "ByteLevel") return std::make_unique<ByteLevelPreTokenizer>(json);
  if (type.string() == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(json);
  if (type.string() == "WhitespaceSplit") return std::make_unique<WhitespaceSplitPreTokenizer>();
  if (type.string() == "Split") return std::make_unique<SplitPreTokenizer>(json);
  if (type.string() != "Sequence")
    type.fail_unsupported("the pre-tokenizer " + type.string() + " is not supported");
  const JsonView parts = json.at("pretokenizers");
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (size_t i = 0, n = num_parts(parts); i < n; ++i)
    steps.push_back(make_split(parts.at(i), depth + 1));
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

}  // namespace

size_t num_parts(const JsonView& json) {
  if (json.size() > kMaxParts)
    json.fail(std::to_string(json.size()) + " parts; at most " + std::to_string(kMaxParts) +
              " are possible");
  return json.size();
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonView& json) {
  return make_split(json, 0);
}

}  // namespace tandem
