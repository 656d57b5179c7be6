// Answers of models that read pages, as HuggingFace's processors read them: tags as JSON, Markdown,
// places on the image. For whoever shows answers: the engine's are texts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "models/answer_form.h"
#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

// Immutable; usable from any thread.
class AnswerReader {
 public:
  // Both outlive this. Throws InputError naming a file of the model.
  AnswerReader(const ModelConfig& config, const Tokenizer& tokenizer);

  // What an answer is read by.
  struct Question {
    AnswerForm form;
    std::string image;  // the file, where the form needs its size
    bool has_form() const { return form.kind != AnswerForm::Kind::kText; }
  };
  // Nothing besides text where the prompt has no image. Throws InputError naming a file.
  Question question(const proto::Prompt& prompt) const;
  // Whether there are questions with a form.
  bool has_forms() const;

  // {"<OD>": {…}}, an object or a list of tags, Markdown as a string. prompt: the decoder's tokens.
  // Null where there is no form, or the answer makes no sense in it. Waits for a decoder of images
  // if the question has one.
  nlohmann::ordered_json read(const Question& question, std::span<const int32_t> prompt,
                              std::span<const int32_t> ids) const;

 private:
  nlohmann::ordered_json parsed(const Question& question, const std::vector<int32_t>& ids) const;

  const ModelConfig& config_;
  const Tokenizer& tokenizer_;
};

}  // namespace tandem
