// Tokens to a text with its special tokens, to what the model's form makes of it.
#include "runtime/request/answer_reader.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "runtime/media/image/image_file.h"
#include "text/answers/page_markdown.h"
#include "text/answers/tag_tree.h"

namespace tandem {
namespace {

constexpr size_t kMostIds = 1 << 16;  // of an answer that is read

const std::string* image_in(const proto::PromptPart& part) {
  if (part.has_image()) return &part.image();
  return part.has_picture() ? &part.picture() : nullptr;
}

}  // namespace

AnswerReader::AnswerReader(const ModelConfig& config, const Tokenizer& tokenizer)
    : config_(config), tokenizer_(tokenizer) {
  proto::Prompt prompt;
  prompt.mutable_encoder()->set_image("");
  question(prompt);  // the files are read
}

bool AnswerReader::has_forms() const {
  const ModelFamily* family = family_of_type(config_.model_type);
  return family != nullptr && family->answer_form != nullptr;
}

AnswerReader::Question AnswerReader::question(const proto::Prompt& prompt) const {
  Question out;
  const std::string* image = image_in(prompt.encoder());
  if (image == nullptr || !has_forms()) return out;
  out.form = family_of_type(config_.model_type)->answer_form(config_, prompt.encoder().text());
  if (out.form.needs_size()) out.image = *image;
  return out;
}

nlohmann::ordered_json AnswerReader::read(const Question& question, std::span<const int32_t> prompt,
                                          std::span<const int32_t> ids) const {
  if (!question.has_form() || prompt.size() + ids.size() > kMostIds) return {};
  std::vector<int32_t> all(prompt.begin(), prompt.end());
  all.insert(all.end(), ids.begin(), ids.end());
  try {
    return parsed(question, all);
  } catch (const InputError&) {  // a text of any length and depth, by a model
    return {};
  }
}

nlohmann::ordered_json AnswerReader::parsed(const Question& question,
                                            const std::vector<int32_t>& ids) const {
  const AnswerForm& form = question.form;
  const bool plain = form.kind == AnswerForm::Kind::kMarkdown;
  std::string text = tokenizer_.decode(ids, /*skip_special=*/plain);
  if (plain) return page_markdown(text);
  if (form.kind == AnswerForm::Kind::kTags) {
    const auto text_of = [&](int id) { return tokenizer_.id_to_token(id).value_or(""); };
    const auto& ends = config_.eos_token_id;
    text = without_task_tag(std::move(text), ends.empty() ? "" : text_of(ends.front()),
                            text_of(config_.pad_token_id));
    return tag_tree(text, [&](const std::string& token) {
      const auto id = tokenizer_.token_to_id(token);
      return id.has_value() && tokenizer_.is_added(*id);
    });
  }
  LocatedOptions options;
  options.banned_phrases = form.banned_phrases;
  options.area_threshold = form.area_threshold;
  if (form.needs_size()) {
    const Image image = decode_image(question.image, "image");
    options.width = image.width;
    options.height = image.height;
  }
  return {{form.task, located_text(text, form.places, options)}};
}

}  // namespace tandem
