// Streams that never end: each submits a request, checks what comes back, and submits the next one,
// until it is told to stop.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "client/tandem_client.h"
#include "tests/support/files/files.h"

namespace tandem::test {

struct LoadCase {
  std::string name;
  client::Request request;
  std::vector<std::vector<int32_t>> expected;  // by index of the output
};

inline std::vector<std::vector<int32_t>> tokens_of(const proto::RequestOutput& output) {
  std::vector<std::vector<int32_t>> out;
  for (const auto& c : output.outputs())
    out.emplace_back(c.token_ids().begin(), c.token_ids().end());
  return out;
}

// Golden requests, and long sampled ones on their prompts. Without `expected` where only an
// undisturbed run tells.
inline std::vector<LoadCase> load_cases() {
  using nlohmann::json;
  const json all = json_from<json>(read_file(golden("bart-tiny") / "golden.json"));
  std::vector<LoadCase> out;
  int sampled = 0;
  for (const json& c : all.at("cases")) {
    const bool greedy = c.at("kind") == "greedy";
    if (!greedy && c.at("kind") != "option") continue;
    LoadCase load;
    load.name = c.at("name").get<std::string>();
    load.request.prompt =
        client::Prompt::pair(client::Prompt::token_ids(c.at("encoder_ids")),
                             client::Prompt::token_ids(c.at("decoder_prompt_ids")));
    load.request.params_json = c.at("generation").dump();
    load.expected = {c.at("new_ids").get<std::vector<int32_t>>()};
    out.push_back(load);
    if (!greedy || sampled == 10) continue;
    load.name += "_sampled";
    load.request.params_json =
        json{{"do_sample", true},    {"seed", 100 + sampled}, {"temperature", 1.3},
             {"n", 1 + sampled % 2}, {"ignore_eos", true},    {"max_new_tokens", 120 - sampled}}
            .dump();
    load.expected.clear();
    out.push_back(load);
    ++sampled;
  }
  return out;
}

// Golden beam searches, some with several results.
inline std::vector<LoadCase> beam_cases() {
  using nlohmann::json;
  const json all = json_from<json>(read_file(golden("bart-tiny") / "golden.json"));
  std::vector<LoadCase> out;
  for (const json& c : all.at("cases")) {
    if (c.at("kind") != "beam") continue;
    LoadCase& load = out.emplace_back();
    load.name = c.at("name").get<std::string>();
    load.request.prompt =
        client::Prompt::pair(client::Prompt::token_ids(c.at("encoder_ids")),
                             client::Prompt::token_ids(c.at("decoder_prompt_ids")));
    load.request.params_json = c.at("generation").dump();
  }
  return out;
}

// What an undisturbed run makes of them; goldens must come out.
inline std::vector<LoadCase> undisturbed(client::Client& client,
                                         std::vector<LoadCase> cases = load_cases()) {
  std::vector<client::RequestHandle> handles;
  for (const LoadCase& c : cases) handles.push_back(client.submit(c.request));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto tokens = tokens_of(handles[i].get());
    if (!cases[i].expected.empty()) {
      EXPECT_EQ(tokens, cases[i].expected) << cases[i].name;
    }
    cases[i].expected = tokens;
  }
  return cases;
}

class Load {
 public:
  // All outlive the load. Starts at once.
  Load(client::Client& client, const std::vector<LoadCase>& cases, int streams)
      : client_(client), cases_(cases), streams_(static_cast<size_t>(streams)) {
    const std::lock_guard lock(mutex_);
    for (size_t s = 0; s < streams_.size(); ++s) submit(s);
  }
  ~Load() {
    if (!stop(std::chrono::seconds(20))) client_.close();  // no callback comes after that
  }

  // Lets what has been submitted end; false if it does not in time.
  bool stop(std::chrono::seconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    return changed_.wait_for(lock, most, [&] { return active_ == 0; });
  }
  // Waits until that many more have finished.
  bool progress(int more, std::chrono::seconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    const int target = finished_ + more;
    return changed_.wait_for(lock, most, [&] { return finished_ >= target; });
  }
  // What a request may end with, and its stream with it: the load is being refused.
  void allow_error(const std::string& type) {
    const std::lock_guard lock(mutex_);
    allowed_.push_back(type);
  }
  int finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }
  int errors(const std::string& type) const {
    const std::lock_guard lock(mutex_);
    const auto it = errors_.find(type);
    return it == errors_.end() ? 0 : it->second;
  }
  std::vector<std::string> failures() const {
    const std::lock_guard lock(mutex_);
    return failures_;
  }
  // Everything has ended, with the tokens of the undisturbed run.
  void expect_all_well() {
    EXPECT_TRUE(stop()) << active_ << " requests have not ended";
    const auto wrong = failures();
    for (size_t i = 0; i < std::min<size_t>(wrong.size(), 5); ++i) ADD_FAILURE() << wrong[i];
    EXPECT_TRUE(wrong.empty()) << wrong.size() << " failures";
    std::printf("%d requests finished\n", finished());
  }

 private:
  struct StreamState {
    size_t which = 0, round = 0;
    std::map<int, std::pair<std::vector<int32_t>, std::string>> got;  // tokens, text, by index
  };

  void submit(size_t s) {  // locked
    StreamState& state = streams_[s];
    state.which = (s + 7 * state.round++) % cases_.size();
    state.got.clear();
    ++active_;
    client_.submit(cases_[state.which].request,
                   [this, s](const proto::RequestChunk& chunk) { on_chunk(s, chunk); });
  }

  void on_chunk(size_t s, const proto::RequestChunk& chunk) {
    const std::lock_guard lock(mutex_);
    StreamState& state = streams_[s];
    const LoadCase& c = cases_[state.which];
    const auto wrong = [&](const std::string& what) {
      failures_.push_back(c.name + " (" + chunk.request_id() + "): " + what);
    };
    for (const auto& piece : chunk.outputs()) {
      auto& [tokens, text] = state.got[piece.index()];
      if (piece.token_offset() != static_cast<int>(tokens.size()))
        wrong("a chunk at token " + std::to_string(piece.token_offset()) + " behind " +
              std::to_string(tokens.size()));
      if (piece.text_offset() != static_cast<int64_t>(text.size())) wrong("a gap in the text");
      tokens.insert(tokens.end(), piece.token_ids().begin(), piece.token_ids().end());
      text += piece.text();
    }
    if (!chunk.finished() && !chunk.has_error()) return;
    --active_;
    if (chunk.has_error()) {
      if (std::count(allowed_.begin(), allowed_.end(), chunk.error().type()) == 0)
        wrong(chunk.error().type() + ": " + chunk.error().message());
      ++errors_[chunk.error().type()];
    } else {
      ++finished_;
      std::vector<std::vector<int32_t>> tokens;
      for (const auto& [index, got] : state.got) tokens.push_back(got.first);
      if (tokens != c.expected) wrong("other tokens than undisturbed");
    }
    if (!stopping_ && !chunk.has_error()) submit(s);
    changed_.notify_all();
  }

  client::Client& client_;
  const std::vector<LoadCase>& cases_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StreamState> streams_;
  std::vector<std::string> allowed_, failures_;
  std::map<std::string, int> errors_;  // by type
  int active_ = 0, finished_ = 0;
  bool stopping_ = false;
};

}  // namespace tandem::test
