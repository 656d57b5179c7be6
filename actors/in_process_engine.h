// A cluster's engine for whoever is in the same process: the HTTP server, commands. Talks to the
// engine actor; the news of a request come from that actor's thread, each step's at once. No CAF in
// sight.
#pragma once

#include <memory>

#include "actors/cluster.h"
#include "runtime/engine/engine_api.h"

namespace tandem::actors {

class InProcessEngine final : public EngineApi {
 public:
  // The cluster outlives it. One for each cluster.
  explicit InProcessEngine(Cluster& cluster);
  ~InProcessEngine() override;  // closes

  void submit(Request request, OnChunk on_chunk) override;
  void cancel(const std::string& id) override;
  bool enter_unread(const std::string& id, std::function<void()> on_turn) override;
  void leave_unread(const std::string& id) override;
  std::optional<proto::Error> refuse_unread() override;
  EngineStatus status() override;
  // Fails what is under way; what is submitted afterwards fails at once. Idempotent. When it
  // returns, no callback of earlier requests runs or is still kept. Not from a callback.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::actors
