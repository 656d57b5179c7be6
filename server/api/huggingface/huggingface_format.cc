// text-generation-inference's answers, and those of pipelines.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "server/api/fields/json_body.h"
#include "server/api/huggingface/huggingface.h"
#include "text/tokenizer.h"

namespace tandem::server {
namespace {

// Of each token the text that it adds. Joined, without the special ones', they are the whole text.
class TokenTexts {
 public:
  explicit TokenTexts(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), detokenizer_(tokenizer, /*skip_special=*/true) {}
  std::string next(int32_t id, bool last) {
    std::string text = detokenizer_.append(id);
    if (last) text += detokenizer_.finish();
    if (tokenizer_.is_special(id)) text += tokenizer_.token_bytes(id);
    return text;
  }

 private:
  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
};

std::string finish_reason_of(const Choice& choice) {
  if (choice.finish_reason == "length") return "length";
  return choice.stop_reason.empty() ? "eos_token" : "stop_sequence";
}

// Of the tokens' log-probabilities.
double mean_logprob(const Choice& choice) {
  double sum = 0;
  for (const proto::TokenLogprobs& t : choice.logprobs) sum += t.top(0).logprob();
  return choice.logprobs.empty() ? -INFINITY : sum / static_cast<double>(choice.logprobs.size());
}

class HuggingFaceFormat final : public AnswerFormat {
 public:
  HuggingFaceFormat(HuggingFaceAnswer answer, const Tokenizer& tokenizer)
      : answer_(std::move(answer)), tokenizer_(tokenizer), texts_(tokenizer) {}

  std::string whole(const std::vector<Choice>& choices, const Usage&,
                    const std::vector<std::string>&) override {
    if (answer_.best_of > 1) {
      const Json best = best_of(choices);
      return dump_ordered_line(answer_.listed ? Json::array({best}) : best);
    }
    if (!answer_.listed) return dump_ordered_line(object(choices.front()));
    Json list = Json::array();
    for (size_t i = 0; i < choices.size(); ++i) {
      const auto sequences = static_cast<size_t>(answer_.sequences);
      const bool nested = answer_.several && sequences > 1;
      if (nested && i % sequences == 0) list.push_back(Json::array());
      (nested ? list.back() : list).push_back(object(choices[i]));
    }
    return dump_ordered_line(list);
  }

  std::string begin(const std::vector<Choice>&, const Usage&) override { return {}; }

  std::string event(const Choice& news, const Usage& usage) override {
    text_ += news.text;
    const bool ends = !news.finish_reason.empty();
    std::string events;
    const size_t count = news.token_ids.size();
    for (size_t i = 0; i < count; ++i) {
      const bool last = ends && i + 1 == count;
      events += token_event(token(news, i, texts_.next(news.token_ids[i], last)), news, i,
                            last ? &usage : nullptr);
    }
    // An end that no token brought (a time limit): an event has a token all the same.
    if (ends && count == 0)
      events += token_event({{"id", 0}, {"text", ""}, {"logprob", nullptr}, {"special", true}},
                            news, 0, &usage);
    return events;
  }

  std::string end(const Usage&) override { return {}; }
  std::string failure(const proto::Error& error) override {
    return "data: " + huggingface_error_body(error) + "\n\n";
  }

 private:
  Json token(const Choice& choice, size_t i, const std::string& text) const {
    const int32_t id = choice.token_ids[i];
    Json out = {{"id", id}, {"text", text}, {"logprob", nullptr}};
    if (i < choice.logprobs.size()) out["logprob"] = choice.logprobs[i].top(0).logprob();
    out["special"] = tokenizer_.is_special(id);
    return out;
  }

  // The likeliest ones.
  Json top_tokens(const proto::TokenLogprobs& t) const {
    Json list = Json::array();
    for (int k = 1; k < t.top_size(); ++k)
      list.push_back({{"id", t.top(k).token_id()},
                      {"text", t.top(k).decoded_token()},
                      {"logprob", t.top(k).logprob()},
                      {"special", tokenizer_.is_special(t.top(k).token_id())}});
    return list;
  }

  // usage: of the last token's event.
  std::string token_event(Json token, const Choice& news, size_t i, const Usage* usage) {
    Json body = {{"index", ++index_}, {"token", std::move(token)}};
    if (i < news.logprobs.size() && news.logprobs[i].top_size() > 1)
      body["top_tokens"] = top_tokens(news.logprobs[i]);
    body["generated_text"] = usage == nullptr ? Json() : Json(text_);
    body["details"] = nullptr;
    if (usage != nullptr && answer_.details)
      body["details"] = {{"finish_reason", finish_reason_of(news)},
                         {"generated_tokens", usage->completion_tokens},
                         {"seed", seed()},
                         {"input_length", usage->prompt_tokens}};
    return "data: " + dump_ordered_line(body) + "\n\n";
  }

  Json seed() const { return answer_.seed ? Json(*answer_.seed) : Json(); }

  // The decoder's prompt. Nothing is said of its first token, for nothing comes before it.
  Json prefill(const Choice& choice) const {
    Json list = Json::array();
    if (!answer_.prefill || choice.decoder_prompt_token_ids == nullptr) return list;
    for (const int32_t id : *choice.decoder_prompt_token_ids) {
      Json logprob;
      const auto& logprobs = *choice.prompt_logprobs;
      if (!list.empty() && list.size() <= logprobs.size())
        logprob = logprobs[list.size() - 1].top(0).logprob();
      list.push_back({{"id", id}, {"text", tokenizer_.token_bytes(id)}, {"logprob", logprob}});
    }
    return list;
  }

  Json details(const Choice& choice) const {
    Json tokens = Json::array(), tops = Json::array();
    TokenTexts texts(tokenizer_);
    const size_t count = choice.token_ids.size();
    bool has_tops = false;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(token(choice, i, texts.next(choice.token_ids[i], i + 1 == count)));
      if (i < choice.logprobs.size()) tops.push_back(top_tokens(choice.logprobs[i]));
      has_tops = has_tops || (!tops.empty() && !tops.back().empty());
    }
    Json out = {{"finish_reason", finish_reason_of(choice)},
                {"generated_tokens", count},
                {"seed", seed()},
                {"prefill", prefill(choice)},
                {"tokens", std::move(tokens)}};
    if (has_tops) out["top_tokens"] = std::move(tops);
    return out;
  }

  Json object(const Choice& choice) const {
    Json out = Json::object();
    for (const std::string& key : answer_.keys) out[key] = choice.text;
    if (answer_.details) out["details"] = details(choice);
    return out;
  }

  // The sequence with the largest mean log-probability; the others in its details.
  Json best_of(const std::vector<Choice>& choices) const {
    const auto best = std::max_element(
        choices.begin(), choices.end(),
        [](const Choice& a, const Choice& b) { return mean_logprob(a) < mean_logprob(b); });
    Json out = object(*best);
    if (!answer_.details) return out;
    Json others = Json::array();
    for (const Choice& choice : choices) {
      if (&choice == &*best) continue;
      Json one = {{"generated_text", choice.text}};
      one.update(details(choice));
      others.push_back(std::move(one));
    }
    out["details"]["best_of_sequences"] = std::move(others);
    return out;
  }

  const HuggingFaceAnswer answer_;
  const Tokenizer& tokenizer_;
  // Of a stream:
  TokenTexts texts_;
  std::string text_;
  int index_ = 0;
};

}  // namespace

std::unique_ptr<AnswerFormat> huggingface_format(HuggingFaceAnswer answer,
                                                 const Tokenizer& tokenizer) {
  return std::make_unique<HuggingFaceFormat>(std::move(answer), tokenizer);
}

}  // namespace tandem::server
