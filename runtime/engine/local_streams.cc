#include "runtime/engine/local_streams.h"

#include <utility>

#include "base/check.h"

namespace tandem {

LocalStream::~LocalStream() {
  if (on_chunk_) fail(InputError(ErrorKind::kUnavailable, "the engine has stopped"));
}

void LocalStream::hand_on(proto::RequestChunk chunk) {
  if (!on_chunk_) return;
  if (!chunk.finished() && !chunk.has_error()) return on_chunk_(std::move(chunk));
  const EngineApi::OnChunk last = std::exchange(on_chunk_, nullptr);
  last(std::move(chunk));
}

void LocalStream::fail(proto::Error error) {
  proto::RequestChunk chunk;
  chunk.set_request_id(id_);
  chunk.set_finished(true);
  *chunk.mutable_error() = std::move(error);
  hand_on(std::move(chunk));
}

proto::Error cancelled_error() {
  proto::Error error;
  error.set_type("cancelled");
  error.set_message("the request was cancelled");
  return error;
}

void LocalStreams::add(std::shared_ptr<LocalStream> stream) {
  const std::string id = stream->id();
  TANDEM_CHECK(streams_.emplace(id, std::move(stream)).second, "ids are unique");
}

void LocalStreams::deliver(proto::RequestChunk chunk) {
  const auto it = streams_.find(chunk.request_id());
  if (it == streams_.end()) return;
  const bool last = chunk.finished() || chunk.has_error();
  it->second->hand_on(std::move(chunk));
  if (last) streams_.erase(it);
}

void LocalStreams::deliver(proto::ServerMessage message) {
  for (proto::RequestChunk& chunk : *message.mutable_chunks()) deliver(std::move(chunk));
}

std::shared_ptr<LocalStream> LocalStreams::take(const std::string& id) {
  const auto node = streams_.extract(id);
  return node.empty() ? nullptr : node.mapped();
}

}  // namespace tandem
