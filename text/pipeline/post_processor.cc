// Special tokens around the text. All processors are templates: RobertaProcessing and
// BertProcessing are two fixed ones.
#include <array>
#include <utility>

#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

class TemplateProcessor : public PostProcessor {
 public:
  // A sequence of the input, or special tokens.
  struct Part {
    int sequence = -1;  // 0: the text, 1: the second text, -1: neither
    std::vector<int32_t> special;
  };
  using Template = std::vector<Part>;

  // once: a special token is not put behind a text that ends with it.
  TemplateProcessor(Template single, Template pair, bool once = false)
      : single_(std::move(single)), pair_(std::move(pair)), once_(once) {}

  std::vector<int32_t> process(std::vector<int32_t> ids, bool add_special) const override {
    return fill(single_, {&ids, nullptr}, add_special);
  }
  std::vector<int32_t> process_pair(std::vector<int32_t> first, std::vector<int32_t> second,
                                    bool add_special) const override {
    return fill(pair_, {&first, &second}, add_special);
  }
  int num_suffix_tokens() const override {
    size_t count = 0;
    for (auto part = single_.rbegin(); part != single_.rend() && part->sequence < 0; ++part)
      count += part->special.size();
    return static_cast<int>(count);
  }

 private:
  std::vector<int32_t> fill(const Template& parts,
                            std::array<const std::vector<int32_t>*, 2> sequences,
                            bool add_special) const {
    std::vector<int32_t> out;
    const std::vector<int32_t>* before = nullptr;
    for (const Part& part : parts) {
      if (part.sequence >= 0) {
        before = sequences[static_cast<size_t>(part.sequence)];
        out.insert(out.end(), before->begin(), before->end());
      } else if (add_special) {
        const bool present = once_ && before != nullptr && !before->empty() &&
                             part.special.size() == 1 && part.special[0] == before->back();
        if (!present) out.insert(out.end(), part.special.begin(), part.special.end());
        before = nullptr;
      }
    }
    return out;
  }

  Template single_, pair_;
  bool once_;
};

using Part = TemplateProcessor::Part;

// ["</s>", 2]
Part special_token(const JsonView& json) {
  if (json.size() != 2) json.fail("expected a token and its id");
  return {-1, {json.at(size_t{1}).id()}};
}

// {"Sequence": {"id": "A"}} or {"SpecialToken": {"id": "</s>"}}
Part read_part(const JsonView& json, const std::optional<JsonView>& special_tokens, bool pair) {
  if (const auto sequence = json.find("Sequence")) {
    const std::string& id = sequence->at("id").string();
    if (id == "A") return {0, {}};
    if (id == "B" && pair) return {1, {}};
    sequence->fail("there is no sequence " + id);
  }
  const JsonView name = json.at("SpecialToken").at("id");
  if (!special_tokens) name.fail("there are no special_tokens");
  const JsonView ids = special_tokens->at(name.string()).at("ids");
  Part part;
  for (size_t i = 0, n = num_parts(ids); i < n; ++i) part.special.push_back(ids.at(i).id());
  return part;
}

TemplateProcessor::Template read_template(const JsonView& parts, const JsonView& json, bool pair) {
  const auto special_tokens = json.find("special_tokens");
  TemplateProcessor::Template out;
  for (size_t i = 0, n = num_parts(parts); i < n; ++i)
    out.push_back(read_part(parts.at(i), special_tokens, pair));
  return out;
}

std::unique_ptr<PostProcessor> plain_processor() {
  return std::make_unique<TemplateProcessor>(TemplateProcessor::Template{{0, {}}},
                                             TemplateProcessor::Template{{0, {}}, {1, {}}});
}

// ByteLevel in this place only moves offsets, so of a sequence at most one processor adds tokens.
std::unique_ptr<PostProcessor> make_sequence(const JsonView& json) {
  const JsonView processors = json.at("processors");
  std::optional<JsonView> adding;
  for (size_t i = 0, n = num_parts(processors); i < n; ++i) {
    const JsonView processor = processors.at(i);
    if (processor.at("type").string() == "ByteLevel") continue;
    if (adding) processor.fail_unsupported("a second processor that adds tokens is not supported");
    adding = processor;
  }
  if (!adding) return plain_processor();
  const JsonView type = adding->at("type");
  if (type.string() == "Sequence")
    type.fail_unsupported("a sequence in a sequence is not supported");
  return make_post_processor(*adding);
}

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const JsonView& json) {
  const Part first{0, {}}, second{1, {}};
  const JsonView type = json.at("type");
  const std::string& name = type.string();
  if (name == "RobertaProcessing" || name == "BertProcessing") {
    const Part cls = special_token(json.at("cls")), sep = special_token(json.at("sep"));
    if (name == "BertProcessing")
      return std::make_unique<TemplateProcessor>(
          TemplateProcessor::Template{cls, first, sep},
          TemplateProcessor::Template{cls, first, sep, second, sep});
    return std::make_unique<TemplateProcessor>(
        TemplateProcessor::Template{cls, first, sep},
        TemplateProcessor::Template{cls, first, sep, sep, second, sep});
  }
  if (name == "TemplateProcessing") {
    const auto once = json.find("once");  // Tandem's own key
    return std::make_unique<TemplateProcessor>(read_template(json.at("single"), json, false),
                                               read_template(json.at("pair"), json, true),
                                               once && once->boolean());
  }
  if (name == "ByteLevel") return plain_processor();
  if (name == "Sequence") return make_sequence(json);
  type.fail_unsupported("the post-processor " + name + " is not supported");
}

}  // namespace tandem
