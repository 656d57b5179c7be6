// What `tandem classify`, `tandem answer` and `tandem embed` share: their input, and requests that
// generate nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/requests.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem::launcher {

struct HeadOptions {
  RequestOptions requests;
  SamplingOptions languages;
  std::vector<std::string> texts;
  bool lines = false;
  std::optional<int> truncate;
  proto::Pooling pooling;

  // The command's words in the log and the progress bar; the input and --truncate-prompt-tokens.
  // texts: the help of the arguments; jsonl: of --jsonl.
  void add_input(CLI::App& app, const char* command, const char* bar, const char* texts,
                 const char* jsonl);
  // What is wrong with the flags that say what the input is. Throws InputError.
  void settle();
  nlohmann::json params() const;
  // Texts, lines or JSON requests. Throws InputError when there are none.
  RequestInput open() const;
};

// Results as JSON lines. The options outlive it.
class HeadFormat : public RequestFormat {
 public:
  using ToJson = nlohmann::json (*)(const proto::RequestOutput& output, const nlohmann::json& id);
  HeadFormat(const HeadOptions& options, ToJson to_json) : options_(options), to_json_(to_json) {}

  JsonRequest read(const std::string& line, nlohmann::json& id) const override;
  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const nlohmann::json& id) const override;

 protected:
  // Behind each text that is no JSON request; null: there is none.
  virtual const std::string* second() const { return nullptr; }

  const HeadOptions& options_;

 private:
  ToJson to_json_;
  mutable uint64_t next_ = 0;  // the id of a text is its place in the input
};

}  // namespace tandem::launcher
