// One HTTP request that makes several requests of the engine and answers when all have ended:
// admission, ids, cancellation. Lives on the strand of its connection, as long as the engine or the
// exchange refers to it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/api/application.h"
#include "server/api/fields/field_names.h"
#include "server/http/http.h"

namespace tandem::server {

class EngineJob : public std::enable_shared_from_this<EngineJob> {
 public:
  virtual ~EngineJob() = default;
  // Assigns ids and submits everything, or answers that the server is full. Throws InputError if
  // there are more than the server ever takes.
  void start(std::vector<EngineApi::Request> requests);

 protected:
  EngineJob(AppContext& app, std::shared_ptr<Exchange> exchange)
      : app_(app), exchange_(std::move(exchange)) {}

  // News of a request, its last included, also once the answer has ended.
  virtual void on_chunk(size_t request, const proto::RequestChunk& chunk) = 0;
  // The first error ends the answer, and cancels the other requests.
  virtual void fail(const proto::Error& error);
  // The client's name of the field at fault in the engine's error.
  virtual std::string field_of(size_t request, const std::string& field) const {
    return names_.of(field);
  }
  // "prompt" and its parts, but no other name with that prefix.
  static bool is_of_prompt(const std::string& field) {
    return field == "prompt" || field.starts_with("prompt.");
  }
  // The field that has an entry for each request.
  virtual std::string list_field() const { return "prompt"; }
  // All requests have ended well.
  virtual void finish() = 0;
  bool ended() const { return ended_; }
  // The request whose news on_chunk() gets has ended: for metrics and traces. options: null where
  // it generates nothing.
  void report(const Metrics::Ended& ended, const proto::GenerationOptions* options);
  // The same of one without output.
  void count_end(const proto::RequestChunk& chunk, int prompt_tokens);

  AppContext& app_;
  const std::shared_ptr<Exchange> exchange_;
  FieldNames names_;  // the client's
  // The prefix of the engine's ids of the requests.
  std::string id_ = exchange_->request().id;

 private:
  void receive(size_t request, const proto::RequestChunk& chunk);
  void cancel();
  void log_fault(const proto::Error& error) const;
  proto::Error renamed(size_t request, const proto::Error& error) const;

  struct Submission {
    std::string id;
    bool done = false;
  };
  std::vector<Submission> submissions_;
  size_t num_done_ = 0;
  size_t current_ = 0;  // whose news on_chunk() gets
  bool ended_ = false;  // nobody waits for more
};

}  // namespace tandem::server
