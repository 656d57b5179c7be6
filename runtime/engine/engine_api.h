// An engine as its users see it: requests in, chunks out. The only face of an engine: the command
// line, the HTTP server and bindings know this alone. LocalEngine is one rank in this process,
// without actors. actors::InProcessEngine is a cluster. launcher::RemoteEngine is a server, over
// the client library.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "runtime/media/media_source.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct EngineStatus {
  bool ready = false;     // requests are being computed
  bool draining = false;  // no new ones are taken
  std::string reason;     // why it is not ready
  proto::ServerInfo info;
};

class EngineApi {
 public:
  struct Request {
    std::string id;  // unique among unfinished requests
    proto::Prompt prompt;
    // The file of the prompt's sound, where that has none in memory.
    std::optional<MediaSource> sound = {};
    proto::GenerationOptions options;
    double timeout = 0;  // seconds; 0: none
    int32_t priority = 0;
    std::string batch;  // id of the first request of its HTTP request: it comes in if that one does
  };
  // News of a request; the last chunk has `finished` or an `error`, and always comes. From a thread
  // of the engine's, or from submit() itself; one at a time, in order. Must not block.
  using OnChunk = std::function<void(proto::RequestChunk)>;

  virtual ~EngineApi() = default;
  // Any thread; never waits. What is wrong with the request comes as a chunk.
  virtual void submit(Request request, OnChunk on_chunk) = 0;
  // Its last chunk is an error of type "cancelled", unless another came before. Any thread.
  virtual void cancel(const std::string& id) = 0;
  // Takes a place in the line for a request that nobody has read yet. So it costs little if its
  // client leaves. on_turn is called once, when its turn has come, from a thread of the engine's.
  // submit() with this id takes over the place; leave_unread() gives it up, at any time. False:
  // read the request and submit it at once. Any thread; never waits.
  virtual bool enter_unread(const std::string& id, std::function<void()> on_turn) {
    static_cast<void>(id);
    static_cast<void>(on_turn);
    return false;
  }
  virtual void leave_unread(const std::string& id) { static_cast<void>(id); }
  // While the engine is full: its answer to any request, so the request need not be read. Each call
  // counts as a request that was refused. Any thread; never waits.
  virtual std::optional<proto::Error> refuse_unread() { return std::nullopt; }
  // At most a few tenths of a second old. Any thread; never waits.
  virtual EngineStatus status() = 0;
};

// Submits, and gathers the chunks. get() returns the whole output, or throws the InputError that
// ended the request.
std::future<proto::RequestOutput> submit_whole(EngineApi& engine, EngineApi::Request request);

// The message of the clients' protocol that says the same; the sound's file apart, which it leaves
// in the request.
proto::SubmitRequest to_submit(EngineApi::Request& request);

}  // namespace tandem
