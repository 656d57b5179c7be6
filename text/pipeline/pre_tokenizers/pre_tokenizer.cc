// Sequences of pre-tokenizers, and the table of those that there are.
#include <algorithm>
#include <utility>

#include "text/pipeline/pre_tokenizers/byte_level.h"
#include "text/pipeline/pre_tokenizers/metaspace.h"
#include "text/pipeline/pre_tokenizers/split.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void split(const Word& text, GrowthBudget& budget, const WordSink& sink) const override {
    run(0, text, budget, sink);
  }
  void align(const AlignedText& text, GrowthBudget& budget,
             const AlignedSink& sink) const override {
    run_aligned(0, text, budget, sink);
  }
  bool transforms() const override {
    return any([](const PreTokenizer& step) { return step.transforms(); });
  }
  bool asks_for_start() const override {
    return any([](const PreTokenizer& step) { return step.asks_for_start(); });
  }

 private:
  template <class Has>
  bool any(const Has& has) const {
    return std::any_of(steps_.begin(), steps_.end(), [&](const auto& step) { return has(*step); });
  }

  // Each word of one step is the text of the next.
  void run(size_t step, const Word& text, GrowthBudget& budget, const WordSink& sink) const {
    if (step == steps_.size()) {
      if (!text.text.empty()) sink(text);
      return;
    }
    steps_[step]->split(text, budget, [&](const Word& part) { run(step + 1, part, budget, sink); });
  }
  void run_aligned(size_t step, const AlignedText& text, GrowthBudget& budget,
                   const AlignedSink& sink) const {
    if (text.text().empty()) return;
    if (step == steps_.size()) return sink(text);
    steps_[step]->align(
        text, budget, [&](const AlignedText& part) { run_aligned(step + 1, part, budget, sink); });
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

std::unique_ptr<PreTokenizer> make_pre_tokenizer_step(const JsonView& json) {
  const JsonView type = json.at("type");
  if (type.string() == "ByteLevel") return std::make_unique<ByteLevelPreTokenizer>(json);
  if (type.string() == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(json);
  if (type.string() == "Split") return std::make_unique<SplitPreTokenizer>(json);
  if (auto split = make_character_split(json)) return split;
  type.fail_unsupported("there is no pre-tokenizer " + type.string());
}

}  // namespace

void PreTokenizer::align(const AlignedText& text, GrowthBudget& budget,
                         const AlignedSink& sink) const {
  const char* begin = text.text().data();
  split({text.text(), false}, budget, [&](const Word& word) {
    const auto at = static_cast<size_t>(word.text.data() - begin);
    sink(text.slice(at, at + word.text.size()));
  });
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonView& json) {
  if (json.at("type").string() != "Sequence") return make_pre_tokenizer_step(json);
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const JsonView& part : flat_parts(json, "pretokenizers"))
    steps.push_back(make_pre_tokenizer_step(part));
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

}  // namespace tandem
