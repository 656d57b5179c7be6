// The requests of the engine's own process: their news go from the engine's thread (the engine
// actor's, LocalEngine's) straight to whoever submitted them. No window, no acknowledgement.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "runtime/engine/engine_api.h"
#include "runtime/request/request_error.h"

namespace tandem {

// One request's news. They always end: with the last chunk, or, where everybody lets go of it
// before (a message to an actor that has ended), with an error. Used by one thread at a time.
class LocalStream {
 public:
  LocalStream(std::string id, EngineApi::OnChunk on_chunk)
      : id_(std::move(id)), on_chunk_(std::move(on_chunk)) {}
  ~LocalStream();
  LocalStream(const LocalStream&) = delete;
  LocalStream& operator=(const LocalStream&) = delete;

  const std::string& id() const { return id_; }
  // Nothing after the last chunk.
  void hand_on(proto::RequestChunk chunk);
  void fail(proto::Error error);
  void fail(const InputError& error) { fail(to_proto(error)); }

 private:
  std::string id_;
  EngineApi::OnChunk on_chunk_;  // empty: it has ended
};

// What a request ends with that its client has cancelled.
proto::Error cancelled_error();

// Those that are open, by request. Owned by the engine, used from its thread only.
class LocalStreams {
 public:
  void add(std::shared_ptr<LocalStream> stream);
  // Hands on the chunk; a last one closes its stream.
  void deliver(proto::RequestChunk chunk);
  // The same with each chunk of the message.
  void deliver(proto::ServerMessage message);
  // Removes it from the table; null if there is none.
  std::shared_ptr<LocalStream> take(const std::string& id);
  // Of any request; empty if there is none.
  std::string any() const { return streams_.empty() ? std::string() : streams_.begin()->first; }
  size_t size() const { return streams_.size(); }

 private:
  std::unordered_map<std::string, std::shared_ptr<LocalStream>> streams_;
};

}  // namespace tandem
