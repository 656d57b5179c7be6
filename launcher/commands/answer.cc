// tandem answer: where in a context the answer to a question begins and ends, as a model of
// extractive question answering has it.
#include <CLI/CLI.hpp>
#include <memory>

#include "launcher/commands/command.h"
#include "launcher/commands/head_options.h"
#include "runtime/request/heads/head_json.h"

namespace tandem::launcher {
namespace {

// Two texts: the question, and the context.
class AnswerFormat final : public HeadFormat {
 public:
  explicit AnswerFormat(const HeadOptions& options) : HeadFormat(options, answer_to_json) {}

 private:
  const std::string* second() const override { return &options_.texts.back(); }
};

int run(HeadOptions& options) {
  options.settle();
  if (options.lines) throw invalid_request("--lines", "has no place for contexts; use --jsonl");
  const AnswerFormat format(options);
  return run_requests(options.requests, format, [&] {
    if (options.requests.jsonl) return options.open();
    if (!options.requests.input.empty()) throw invalid_request("--input", "is for --jsonl");
    if (options.texts.size() != 2)
      throw invalid_request("QUESTION CONTEXT", "give one question and one context, or --jsonl");
    return RequestInput{nullptr, {options.texts[0]}, 0};
  });
}

}  // namespace

Run add_answer(CLI::App& app) {
  auto options = std::make_shared<HeadOptions>();
  options->pooling.set_kind(proto::Pooling::SPANS);
  options->add_input(app, "tandem answer", "Answering",
                     "The question, and the context that the answer is in",
                     "Read {\"id\", \"text\", \"text_pair\"} from each line: the question and the "
                     "context (docs/classifying.md)");
  options->requests.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
