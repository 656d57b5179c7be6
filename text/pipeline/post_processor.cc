// Special tokens around the text. A processor makes sequences of ids of the sequences that it is
// given, one or two; in the end they are joined.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;
using Sequences = std::vector<Ids>;

class Step {
 public:
  virtual ~Step() = default;
  virtual Sequences process(Sequences in, bool add_special) const = 0;
  virtual bool takes(size_t sequences) const { return sequences > 0; }
};

// "BertProcessing" and "RobertaProcessing": a token before the first sequence, one behind each.
class BertStep final : public Step {
 public:
  // repeats: one before each other sequence, too.
  BertStep(int32_t cls, int32_t sep, bool repeats) : cls_(cls), sep_(sep), repeats_(repeats) {}
  Sequences process(Sequences in, bool add_special) const override {
    if (!add_special) return in;
    for (size_t i = 0; i < in.size(); ++i) {
      if (i == 0 || repeats_) in[i].insert(in[i].begin(), i == 0 ? cls_ : sep_);
      in[i].push_back(sep_);
    }
    return in;
  }

 private:
  int32_t cls_, sep_;
  bool repeats_;
};

// A sequence of the input, or special tokens.
struct Part {
  int sequence = -1;  // 0: the text, 1: the second text, -1: neither
  Ids special;
};
using Template = std::vector<Part>;
constexpr int kMaxTexts = 8;  // of a template, which can repeat them

class TemplateStep final : public Step {
 public:
  // once: a special token is not put behind a text that ends with it.
  TemplateStep(Template single, Template pair, bool once)
      : single_(std::move(single)), pair_(std::move(pair)), once_(once) {}

  Sequences process(Sequences in, bool add_special) const override {
    Sequences out;
    bool behind_text = false;
    for (const Part& part : in.size() == 1 ? single_ : pair_) {
      if (part.sequence >= 0) {
        out.push_back(in[static_cast<size_t>(part.sequence)]);
        behind_text = true;
      } else if (add_special) {
        const bool present = once_ && behind_text && !out.back().empty() &&
                             part.special.size() == 1 && part.special[0] == out.back().back();
        if (!present) out.push_back(part.special);
        behind_text = false;
      }
    }
    return out;
  }
  bool takes(size_t sequences) const override { return sequences == 1 || sequences == 2; }

 private:
  Template single_, pair_;
  bool once_;
};

class ProcessorChain final : public PostProcessor {
 public:
  ProcessorChain(std::vector<std::unique_ptr<Step>> steps, const JsonView& json)
      : steps_(std::move(steps)) {
    for (const size_t texts : {1, 2})
      for (const bool add_special : {true, false}) {
        Sequences now(texts);
        for (const auto& step : steps_) {
          if (!step->takes(now.size()))
            json.fail_unsupported("a template behind a processor that makes " +
                                  std::to_string(now.size()) + " sequences is not supported");
          now = step->process(std::move(now), add_special);
        }
      }
  }

  Ids process(Ids ids, bool add_special) const override {
    Sequences in;
    in.push_back(std::move(ids));
    return run(std::move(in), add_special);
  }
  Ids process_pair(Ids first, Ids second, bool add_special) const override {
    Sequences in;
    in.push_back(std::move(first));
    in.push_back(std::move(second));
    return run(std::move(in), add_special);
  }
  int num_suffix_tokens() const override {
    const Ids ids = process({kText}, true);
    size_t count = 0;
    while (count < ids.size() && ids[ids.size() - 1 - count] != kText) ++count;
    return static_cast<int>(count);
  }

 private:
  static constexpr int32_t kText = -1;  // stands for a text

  Ids run(Sequences now, bool add_special) const {
    for (const auto& step : steps_) now = step->process(std::move(now), add_special);
    Ids out;
    for (const Ids& ids : now) out.insert(out.end(), ids.begin(), ids.end());
    return out;
  }

  std::vector<std::unique_ptr<Step>> steps_;
};

// ["</s>", 2]
int32_t special_token(const JsonView& json) {
  if (json.size() != 2) json.fail("expected a token and its id");
  return json.at(size_t{1}).id();
}

// {"Sequence": {"id": "A"}} or {"SpecialToken": {"id": "</s>"}}
Part read_part(const JsonView& json, const std::optional<JsonView>& special_tokens, bool pair) {
  if (const auto sequence = json.find("Sequence")) {
    const std::string id = sequence->at("id").string();
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

Template read_template(const JsonView& parts, const JsonView& json, bool pair) {
  const auto special_tokens = json.find("special_tokens");
  Template out;
  int texts = 0;
  for (size_t i = 0, n = num_parts(parts); i < n; ++i) {
    out.push_back(read_part(parts.at(i), special_tokens, pair));
    if (out.back().sequence >= 0 && ++texts > kMaxTexts)
      parts.fail_unsupported("has more than " + std::to_string(kMaxTexts) + " texts");
  }
  return out;
}

// nullptr: the processor moves offsets only.
std::unique_ptr<Step> make_step(const JsonView& json) {
  const JsonView type = json.at("type");
  const std::string& name = type.string();
  if (name == "ByteLevel") return nullptr;
  // The library tells these two apart by their fields.
  if (name == "RobertaProcessing" || name == "BertProcessing")
    return std::make_unique<BertStep>(special_token(json.at("cls")), special_token(json.at("sep")),
                                      json.find("trim_offsets") && json.find("add_prefix_space"));
  if (name == "TemplateProcessing") {
    const auto once = json.find("once");  // Tandem's own key
    return std::make_unique<TemplateStep>(read_template(json.at("single"), json, false),
                                          read_template(json.at("pair"), json, true),
                                          once && once->boolean());
  }
  type.fail_unsupported("there is no post-processor " + name);
}

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const JsonView& json) {
  std::vector<std::unique_ptr<Step>> steps;
  for (const JsonView& part : flat_parts(json, "processors"))
    if (auto step = make_step(part)) steps.push_back(std::move(step));
  return std::make_unique<ProcessorChain>(std::move(steps), json);
}

}  // namespace tandem
