// One HTTP request that asks the engine for several things at once, and answers when all have come:
// admission, ids, cancellation. Lives on the strand of its connection, as long as the engine or the
// exchange refers to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/application.h"
#include "server/http.h"

namespace tandem::server {

class EngineJob : public std::enable_shared_from_this<EngineJob> {
 public:
  virtual ~EngineJob() = default;
  // Submits everything, or answers that the server is full. Ids are given here.
  void start(std::vector<EngineApi::Request> requests);

 protected:
  EngineJob(AppContext& app, std::shared_ptr<Exchange> exchange)
      : app_(app), exchange_(std::move(exchange)) {}

  // News of a request, its last included, also once the answer has ended.
  virtual void on_chunk(size_t request, const proto::RequestChunk& chunk) = 0;
  // The first error ends the answer, and cancels the other requests.
  virtual void fail(const proto::Error& error);
  // All requests have ended well.
  virtual void finish() = 0;
  bool ended() const { return ended_; }

  AppContext& app_;
  const std::shared_ptr<Exchange> exchange_;

 private:
  void receive(size_t request, const proto::RequestChunk& chunk);
  void cancel();
  void log_fault(const proto::Error& error) const;

  struct Part {
    std::string id;
    bool done = false;
  };
  std::vector<Part> parts_;
  size_t num_done_ = 0;
  bool ended_ = false;  // nobody waits for more
};

}  // namespace tandem::server
