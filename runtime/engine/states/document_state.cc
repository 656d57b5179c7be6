#include "runtime/engine/states/document_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

DocumentState::DocumentState(const std::string& request_id, PreparedDocument document,
                             double arrival_time)
    : document_(std::move(document)), times_(arrival_time) {
  TANDEM_CHECK(!document_.document.parts.empty());
  answers_.resize(document_.document.parts.size());
  num_chunks_ = answers_.size();
  output_.set_request_id(request_id);
}

std::vector<PartRequest> DocumentState::next() {
  std::vector<PartRequest> out;
  for (; sent_ < answers_.size() && sent_ - answered_ < kMostUnanswered; ++sent_) {
    PartRequest part{first_number_ + static_cast<int>(sent_), document_.prompt, document_.options};
    part.prompt.mutable_encoder()->set_text(document_.document.parts[sent_].text);
    out.push_back(std::move(part));
  }
  return out;
}

void DocumentState::take(int number, const proto::RequestOutput& answer, double now) {
  const auto i = static_cast<size_t>(number - first_number_);
  TANDEM_CHECK(number >= first_number_ && i < sent_ && !answers_[i]);
  ++answered_;
  times_.answered(answer);
  source_ids_.MergeFrom(answer.inputs().encoder_prompt_token_ids());
  answers_[i] = answer;
  if (document_.merge == Merge::kJoin || answers_.size() == 1) {
    for (; appended_ < answers_.size() && answers_[appended_]; ++appended_) {
      append(document_.document.parts[appended_], *answers_[appended_]);
      answers_[appended_]->Clear();
      times_.has_text(now);
    }
    if (appended_ == answers_.size()) finish(now);
  } else if (answered_ == answers_.size()) {
    end_round(now);
  }
}

void DocumentState::append(const DocumentPart& part, const proto::RequestOutput& answer) {
  for (int i = 0; i < answer.outputs_size(); ++i) {
    const proto::CompletionOutput& from = answer.outputs(i);
    proto::CompletionOutput& to =
        i < output_.outputs_size() ? *output_.mutable_outputs(i) : *output_.add_outputs();
    to.set_index(i);
    append_answer(*to.mutable_text(), part.before, from.text());
    // Scores are means over tokens.
    if (from.has_score()) {
      const double before = to.token_ids_size(), more = from.token_ids_size();
      to.set_score((to.score() * before + from.score() * more) / std::max(before + more, 1.0));
    }
    to.mutable_token_ids()->MergeFrom(from.token_ids());
    to.mutable_logprobs()->MergeFrom(from.logprobs());
    to.set_cumulative_logprob(to.cumulative_logprob() + from.cumulative_logprob());
    cut_short_ |= from.finish_reason() == "length";
  }
}

// The summaries of the chunks are the next round's text.
void DocumentState::end_round(double now) {
  std::string text;
  for (const auto& answer : answers_) {
    if (!text.empty()) text += '\n';
    text += answer->outputs(0).text();
    cut_short_ |= answer->outputs(0).finish_reason() == "length";
  }
  std::vector<std::string> chunks = document_.chunks(text);
  first_number_ += static_cast<int>(answers_.size());
  // Summaries that are no shorter than their texts would go on for ever.
  if (chunks.empty() || chunks.size() >= answers_.size()) {
    for (const auto& answer : answers_) append({&answer == &answers_[0] ? "" : "\n", ""}, *answer);
    return finish(now);
  }
  document_.document.parts.clear();
  for (std::string& chunk : chunks) document_.document.parts.push_back({"", std::move(chunk)});
  answers_.assign(chunks.size(), std::nullopt);
  sent_ = answered_ = appended_ = 0;
}

void DocumentState::finish(double now) {
  for (proto::CompletionOutput& out : *output_.mutable_outputs()) {
    *out.mutable_text() += document_.document.after;
    out.set_finish_reason(cut_short_ ? "length" : "stop");
  }
  if (document_.merge == Merge::kSummary && num_chunks_ > 1)
    output_.add_warnings(
        "the text is longer than the model reads: this is a summary of the "
        "summaries of its " +
        std::to_string(num_chunks_) + " parts");
  proto::EncoderDecoderInputs& inputs = *output_.mutable_inputs();
  inputs.set_encoder_prompt(document_.prompt.encoder().text());
  *inputs.mutable_encoder_prompt_token_ids() = std::move(source_ids_);
  output_.set_finished(true);
  times_.write(now, *output_.mutable_metrics());
  stop();
}

void DocumentState::stop() {
  document_ = {};
  answers_.clear();
  sent_ = answered_ = appended_ = 0;
}

void DocumentState::check_integrity() const {
  TANDEM_CHECK_EQ(output_.has_metrics(), finished());
  TANDEM_CHECK_EQ(answers_.size(), document_.document.parts.size());
  TANDEM_CHECK_LE(answered_, sent_);
  TANDEM_CHECK_LE(sent_, answers_.size());
  TANDEM_CHECK_LE(appended_, answered_);
  TANDEM_CHECK_LE(sent_ - answered_, kMostUnanswered);
  size_t answered = 0;
  for (const auto& answer : answers_) answered += answer.has_value();
  TANDEM_CHECK_EQ(answered, answered_);
}

}  // namespace tandem
