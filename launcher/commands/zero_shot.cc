#include "launcher/commands/zero_shot.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "base/log/log.h"
#include "base/strings/printable.h"
#include "base/strings/readable_text.h"
#include "launcher/command_requests.h"
#include "launcher/commands/command.h"
#include "launcher/progress.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/request/heads/head_json.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

// Requests in flight, at most: enough that the engine never waits for one.
constexpr size_t kAhead = 4;
// Texts that wait for one before them, at most.
constexpr size_t kMostUnwrittenTexts = 4096;

// A text until all its labels have been judged.
struct Judged {
  json id;
  std::string text;
  proto::Labels labels;                    // the model's
  std::vector<std::vector<float>> logits;  // by label
  size_t missing = 0;
  std::optional<InputError> error;  // the first
};

class ZeroShotSession {
 public:
  // files: may be null.
  ZeroShotSession(EngineApi& engine, const HeadOptions& options, const ZeroShot& asked,
                  DocumentFiles* files)
      : requests_(engine, options.requests.lora),
        format_(options, nullptr),
        options_(options),
        asked_(asked),
        files_(files) {}

  void submit(const Line& line) {
    const uint64_t place = submitted_++;
    Judged& text = texts_[place];
    try {
      if (line.too_long) throw invalid_request("text", "the line is longer than 64 MiB");
      JsonRequest request = format_.read(line.text, text.id);
      const proto::PromptPart& part = request.prompt.encoder();
      if (!part.has_text()) throw invalid_request("text", "is missing: labels are put behind it");
      if (part.has_second()) throw invalid_request("text_pair", "is what --labels put there");
      text.text = part.text();
      text.logits.resize(asked_.labels.size());
      text.missing = asked_.labels.size();
      for (size_t i = 0; i < asked_.labels.size(); ++i) submit_pair(place, i, request);
    } catch (const InputError& error) {
      text.error = error;
    }
  }

  void step() {
    for (const auto& [number, output, error, seconds] : requests_.poll()) {
      const auto [place, label] = under_way_.at(number);
      under_way_.erase(number);
      Judged& text = texts_.at(place);
      --text.missing;
      if (error && !text.error) text.error = *error;
      if (error) continue;
      const auto& values = output.embedding().values();
      text.logits[label].assign(values.begin(), values.end());
      text.labels = output.inputs().labels();
    }
  }

  // What is next in the order of the input.
  void flush() {
    for (auto it = texts_.begin(); it != texts_.end() && it->second.missing == 0;
         it = texts_.erase(it)) {
      if (it->second.error)
        fail(it->first, it->second);
      else if (const auto text = result(it->first, it->second))
        std::cout << *text << "\n";
    }
    std::cout.flush();
  }

  size_t in_flight() const { return under_way_.size(); }
  size_t unwritten() const { return texts_.size(); }
  uint64_t submitted() const { return submitted_; }
  uint64_t failed() const { return failed_; }

 private:
  void submit_pair(uint64_t place, size_t label, const JsonRequest& of_text) {
    JsonRequest request = of_text;
    proto::SecondText& second = *request.prompt.mutable_encoder()->mutable_second();
    second.set_text(asked_.hypothesis(label));
    second.set_cut_first(true);
    under_way_.emplace(next_, std::pair{place, label});
    requests_.submit(next_++, std::move(request));
  }

  void warn_once(const proto::Labels& labels) {
    if (labels.has_entailment() || warned_) return;
    warned_ = true;
    log_warning(
        "no label of the model begins with \"entail\" (label2id of config.json): {}, the last one, "
        "is taken for it, as in HuggingFace",
        in_quotes(labels.names(labels.names_size() - 1)));
  }

  // Nothing: it is in a file.
  std::optional<std::string> result(uint64_t place, const Judged& text) {
    warn_once(text.labels);
    const auto ranked = rank_labels(asked_, text.labels, text.logits);
    if (!options_.requests.jsonl) {
      std::string out;
      for (const RankedLabel& one : ranked)
        add_label_line(out, one.score, asked_.labels[one.label]);
      if (files_ != nullptr) return take_labels(*files_, place, out);
      return readable(text.text) + "\n" + out;
    }
    json labels = json::array(), scores = json::array();
    for (const RankedLabel& one : ranked) {
      labels.push_back(asked_.labels[one.label]);
      scores.push_back(one.score);
    }
    return dump_line(
        {{"id", text.id}, {"sequence", text.text}, {"labels", labels}, {"scores", scores}});
  }

  void fail(uint64_t place, const Judged& text) {
    ++failed_;
    if (options_.requests.jsonl)
      std::cout << dump_line(error_to_json(*text.error, text.id)) << "\n";
    else
      report_failure(place + 1, *text.error, files_ != nullptr ? files_->name_of(place) : "");
  }

  CommandRequests requests_;
  const HeadFormat format_;
  const HeadOptions& options_;
  const ZeroShot& asked_;
  DocumentFiles* files_;
  std::map<uint64_t, Judged> texts_;                           // by their place in the input
  std::map<uint64_t, std::pair<uint64_t, size_t>> under_way_;  // request → text and label
  uint64_t next_ = 0, submitted_ = 0, failed_ = 0;
  bool warned_ = false;
};

int run_with(EngineApi& engine, const HeadOptions& options, const ZeroShot& asked,
             ZeroShotInput texts) {
  const size_t most =
      kAhead * static_cast<size_t>(options.requests.engine.config.scheduling().max_num_seqs());
  RequestInput& input = texts.texts;
  ZeroShotSession session(engine, options, asked, texts.files);
  ProgressBar bar(options.requests.bar);
  bool more = true;
  const uint64_t known = input.texts.size();
  while ((more || session.unwritten() > 0) && std::cout) {
    while (more && session.in_flight() < most && session.unwritten() < kMostUnwrittenTexts) {
      const bool idle = session.in_flight() == 0;
      if (idle) session.flush();
      const std::optional<Line> line = input.next(/*wait=*/idle, more);
      if (!line) break;
      session.submit(*line);
    }
    if (session.in_flight() > 0) session.step();
    bar.update(session.submitted() - session.unwritten(), more ? known : session.submitted());
    session.flush();
  }
  bar.erase();
  return session.failed() > 0 ? 1 : 0;
}

}  // namespace

std::vector<std::string> split_labels(const std::string& labels) {
  constexpr const char* kBlank = " \t\r\n\f\v";
  std::vector<std::string> out;
  for (size_t at = 0; at <= labels.size();) {
    const size_t comma = std::min(labels.find(',', at), labels.size());
    const std::string label = labels.substr(at, comma - at);
    const size_t first = label.find_first_not_of(kBlank);
    if (first != label.npos)
      out.push_back(label.substr(first, label.find_last_not_of(kBlank) + 1 - first));
    at = comma + 1;
  }
  return out;
}

void add_label_line(std::string& out, double score, const std::string& label) {
  char text[32];
  std::snprintf(text, sizeof(text), "%8.4f  ", score);
  out += (out.empty() ? "" : "\n") + (text + readable(label));
}

std::optional<std::string> take_labels(DocumentFiles& files, size_t request,
                                       const std::string& labels) {
  const std::string& name = files.name_of(request);
  const std::string heading =
      readable(name.empty() || name == "-" ? files.requests()[request] : name);
  const auto text = files.take(request, labels);
  return text ? std::optional(heading + "\n" + *text) : std::nullopt;
}

int run_zero_shot(HeadOptions& options, const ZeroShot& asked,
                  const std::function<ZeroShotInput()>& open) {
  ZeroShotInput input;
  return run_on_engine(
      options.requests, [&] { input = open(); },
      [&](EngineApi& engine) { return run_with(engine, options, asked, std::move(input)); });
}

}  // namespace tandem::launcher
