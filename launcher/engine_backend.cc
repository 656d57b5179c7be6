#include "launcher/engine_backend.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/protocol/output_cursor.h"
#include "runtime/request/request_error.h"

namespace tandem::launcher {
namespace {

class EngineBackend final : public Backend {
 public:
  explicit EngineBackend(EngineApi& engine) : engine_(engine) {}

  void submit(uint64_t number, JsonRequest json) override {
    EngineApi::Request request;
    request.id = "request-" + std::to_string(next_id_++);
    request.prompt = std::move(json.prompt);
    request.options = std::move(json.options);
    request.priority = json.priority;
    outputs_[number].set_request_id(request.id);
    engine_.submit(std::move(request), [inbox = inbox_, number](proto::RequestChunk chunk) {
      const std::lock_guard lock(inbox->mutex);
      inbox->chunks.emplace_back(number, std::move(chunk));
      inbox->changed.notify_one();
    });
  }

  std::vector<Finished> poll() override {
    decltype(Inbox::chunks) news;
    {
      std::unique_lock lock(inbox_->mutex);
      inbox_->changed.wait_for(lock, std::chrono::milliseconds(50),
                               [this] { return !inbox_->chunks.empty(); });
      news.swap(inbox_->chunks);
    }
    std::vector<Finished> out;
    for (const auto& [number, chunk] : news) {
      const auto it = outputs_.find(number);
      append_chunk(it->second, chunk);
      if (sink_) sink_(number, chunk);
      if (!chunk.finished() && !chunk.has_error()) continue;
      Finished& finished = out.emplace_back(Finished{number, {}, {}, 0});
      if (chunk.has_error())
        finished.error = to_input_error(chunk.error());
      else
        finished.output = std::move(it->second);
      outputs_.erase(it);
    }
    return out;
  }

 private:
  // What the engine has said since the last poll(). The engine's callbacks hold it too.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::pair<uint64_t, proto::RequestChunk>> chunks;  // by the request's number
  };

  EngineApi& engine_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, proto::RequestOutput> outputs_;  // of requests under way
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
};

}  // namespace

std::unique_ptr<Backend> make_engine_backend(EngineApi& engine) {
  return std::make_unique<EngineBackend>(engine);
}

}  // namespace tandem::launcher
