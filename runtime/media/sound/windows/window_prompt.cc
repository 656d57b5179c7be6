#include "runtime/media/sound/windows/window_prompt.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/printable.h"
#include "text/language_names.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

// Of a model that hears English and writes it down, and has no tokens to say so: it does what is
// asked for without them.
void check_english(const TranscriptionParams& params) {
  const std::string name = params.language.value_or("en");
  const bool token = name.starts_with("<|") && name.ends_with("|>");
  if (language_code(token ? language_code_of_token(name) : name) != "en")
    throw invalid_request("language", in_quotes(name) +
                                          " is not a language of this model, which hears English "
                                          "only (is_multilingual is false)");
  if (const std::string task = params.task.value_or("transcribe"); task != "transcribe")
    throw invalid_request("task", in_quotes(task) +
                                      " is not a task of this model, which can transcribe only "
                                      "(is_multilingual is false)");
}

}  // namespace

// The start, and the language where it is known.
WindowPrompt::WindowPrompt(const SpeechSettings& settings, const TranscriptionParams& params,
                           bool timestamps)
    : settings_(settings), params_(params), timestamps_(timestamps) {
  const SpeechSettings& s = settings_;
  if (!params_.whole_prompt.empty()) {
    start_.assign(params_.whole_prompt.begin(), params_.whole_prompt.end());
    language_ = window_language_ = params_.spoken_language;
    return;
  }
  if (s.multilingual == false) {
    check_english(params_);
    language_ = "<|en|>";
  } else {
    asked_language_ = params_.language;
    asked_task_ = params_.task;
  }
  if (asked_task_) s.task_id(*asked_task_);  // wrong ones are refused before anything is sent
  start_ = {s.decoder_start};
  if (!asked_task_ && !asked_language_ && !s.forced_prompt.empty() &&
      s.forced_prompt[0].first == 1) {
    for (const auto& [place, id] : s.forced_prompt) {
      if (place != static_cast<int64_t>(start_.size()))
        throw invalid_model("generation_config.json", "forced_decoder_ids has no id for place " +
                                                          std::to_string(start_.size()));
      start_.push_back(id);
    }
  }
  const bool unknown = start_.size() <= 1 || !start_[1];
  if (asked_language_) {
    const int32_t id = s.language_id(*asked_language_);
    language_ = s.language_of(id);
    start_.push_back(id);
  } else {
    open_ = unknown && !s.languages.empty();
    if (!unknown && language_.empty()) language_ = s.language_of(*start_[1]);
  }
  if (!open_) set_task();
  window_language_ = language_;
}

void WindowPrompt::set_language(int32_t id) {
  open_ = false;
  language_ = window_language_ = settings_.language_of(id);
  if (start_.size() > 1)
    start_[1] = id;
  else
    start_.push_back(id);
  set_task();
}

void WindowPrompt::change_language(int32_t id) {
  TANDEM_CHECK(!open_ && start_.size() > 1);
  window_language_ = settings_.language_of(id);
  start_[1] = id;
}

// Behind the language: the task, and that there are no times.
void WindowPrompt::set_task() {
  const SpeechSettings& s = settings_;
  const auto is_task = [&](std::optional<int32_t> id) {
    return std::any_of(s.tasks.begin(), s.tasks.end(),
                       [&](const auto& task) { return id == task.second; });
  };
  if (asked_task_) {
    start_.push_back(s.task_id(*asked_task_));
  } else if (asked_language_ && std::none_of(start_.begin(), start_.end(), is_task)) {
    if (const auto it = s.tasks.find("transcribe"); it != s.tasks.end())
      start_.push_back(it->second);
  }
  if (!timestamps_ && s.no_timestamps && start_.back() != s.no_timestamps)
    start_.push_back(s.no_timestamps);
  else if (timestamps_ && start_.back() == s.no_timestamps)
    start_.pop_back();
  start_.erase(std::remove(start_.begin(), start_.end(), std::nullopt), start_.end());
}

// The end of what was said, behind the request's prompt or the token that begins such texts.
Ids WindowPrompt::text_before(std::span<const proto::SpeechSegment> before, bool with) const {
  Ids out = params_.prompt_ids;
  if (!with || (before.empty() && (out.empty() || params_.prompt_all_segments))) return out;
  Ids text;
  if (!params_.prompt_all_segments) {  // the prompt is the first of the texts
    const bool marked = !out.empty() && out.front() == settings_.prev_start;
    text.assign(out.begin() + (marked ? 1 : 0), out.end());
    out.clear();
  }
  if (out.empty() && settings_.prev_start) out.push_back(*settings_.prev_start);
  const int32_t first = settings_.first_timestamp();
  for (const proto::SpeechSegment& segment : before) {
    const auto& ids = segment.token_ids();
    // Of a pair at its end the second is the next one's beginning.
    const bool pair = ids.size() > 2 && ids[ids.size() - 2] >= first;
    text.insert(text.end(), ids.begin(), ids.end() - (pair ? 1 : 0));
  }
  const auto most = static_cast<size_t>(std::max(settings_.decoder_positions / 2 - 1, 0));
  if (text.size() > most) text.erase(text.begin(), text.end() - static_cast<long>(most));
  out.insert(out.end(), text.begin(), text.end());
  return out;
}

Ids WindowPrompt::ids(std::span<const proto::SpeechSegment> before, bool with,
                      bool hotwords) const {
  Ids out = text_before(before, with);
  if (const Ids& words = params_.hotwords; hotwords && !words.empty()) {
    if (out.empty() || out.front() != words.front()) out.insert(out.begin(), words.front());
    out.insert(out.begin() + 1, words.begin() + 1, words.end());
  }
  for (const std::optional<int32_t>& id : start_) out.push_back(*id);
  return out;
}

Ids WindowPrompt::prefix() const {
  Ids out = params_.prefix;
  if (timestamps_ && !out.empty()) out.insert(out.begin(), settings_.first_timestamp());
  return out;
}

Ids WindowPrompt::up_to_start(const Ids& ids) const {
  return {ids.begin(), ids.end() - (std::ssize(start_) - 1)};
}

}  // namespace tandem
