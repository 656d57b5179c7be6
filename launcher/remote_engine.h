// A server's engine, over the client library.
#pragma once

#include <memory>

#include "client/tandem_client.h"
#include "runtime/engine/engine_api.h"

namespace tandem::launcher {

class RemoteEngine final : public EngineApi {
 public:
  explicit RemoteEngine(client::Client client);
  // Closes the client: what has not ended gets an error ("connection_error") here, and goes on at
  // the server for a while. Not from a callback.
  ~RemoteEngine() override;

  // The bytes of `sound` are read here, and sent: no more than kMaxSoundBytes. Errors have the
  // types of docs/client.md.
  void submit(Request request, OnChunk on_chunk) override;
  void cancel(const std::string& id) override;
  // As the server said when it was last asked, which each call does. Not ready: it has not answered
  // yet, or its workers are down.
  EngineStatus status() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::launcher
