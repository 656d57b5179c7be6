#include "launcher/backend.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/request/request_error.h"
#include "runtime/request/request_json.h"

namespace tandem::launcher {
namespace {

class LocalBackend final : public Backend {
 public:
  explicit LocalBackend(std::unique_ptr<LLMEngine> engine) : engine_(std::move(engine)) {
    engine_->stream_to([this](const proto::RequestChunk& chunk) {
      if (sink_) sink_(std::stoull(chunk.request_id()), chunk);
    });
  }

  void submit(uint64_t number, JsonRequest request) override {
    const std::string id = std::to_string(number);
    if (request.audio.empty())
      return engine_->add_request(id, request.prompt, request.options, request.priority);
    engine_->add_request(
        id, engine_->processor().prepare_file(request.audio, request.prompt, request.options),
        request.priority);
  }
  bool opens_files() const override { return true; }
  bool takes_sound() const override { return engine_->takes_sound(); }
  std::vector<Finished> poll() override {
    std::vector<Finished> out;
    for (proto::RequestOutput& output : engine_->step())
      out.push_back({std::stoull(output.request_id()), std::move(output), {}, 0});
    for (auto& [id, error] : engine_->take_failures())
      out.push_back({std::stoull(id), {}, std::move(error), 0});
    return out;
  }
  const Tokenizer* tokenizer() const override { return &engine_->tokenizer(); }
  std::optional<SpeculationStats> drafts() const override {
    const SpeculationStats& stats = engine_->scheduler().speculation_stats();
    if (stats.accepted_per_position.empty()) return std::nullopt;  // they are off
    return stats;
  }

 private:
  std::unique_ptr<LLMEngine> engine_;
};

class ClientBackend final : public Backend {
 public:
  explicit ClientBackend(client::Client client) : client_(std::move(client)) {}
  ~ClientBackend() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    room_.notify_all();
    client_.close();
  }

  void submit(uint64_t number, JsonRequest json) override {
    client::Request request;
    request.prompt = client::Prompt(std::move(json.prompt));
    request.options = std::move(json.options);
    request.priority = json.priority;
    // The lock keeps the last chunk from being seen before the handle is known.
    const std::lock_guard lock(mutex_);
    const bool streams = static_cast<bool>(sink_);
    const auto on_chunk = [this, number, streams](const proto::RequestChunk& c) {
      if (!c.finished() && !streams) return;
      {
        std::unique_lock done_lock(mutex_);
        // Whoever does not poll holds the server up, not the memory.
        room_.wait(done_lock, [&] { return news_.size() < kMaxNews || closing_; });
        if (streams) news_.emplace_back(number, c);
        if (c.finished()) done_.push_back(number);
      }
      changed_.notify_one();
    };
    handles_.emplace(number, client_.submit(request, on_chunk));
  }

  std::vector<Finished> poll() override {
    std::vector<uint64_t> done;
    std::vector<std::pair<uint64_t, client::RequestHandle>> handles;
    std::vector<std::pair<uint64_t, proto::RequestChunk>> news;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(50),
                        [&] { return !done_.empty() || !news_.empty(); });
      done.swap(done_);
      news.swap(news_);
      room_.notify_all();
      for (const uint64_t number : done) {
        const auto it = handles_.find(number);
        handles.emplace_back(number, it->second);
        handles_.erase(it);
      }
      // What the client itself failed has no last chunk.
      for (auto it = handles_.begin(); done.empty() && it != handles_.end();) {
        if (it->second.done()) {
          handles.emplace_back(it->first, it->second);
          it = handles_.erase(it);
        } else {
          ++it;
        }
      }
    }
    for (const auto& [number, chunk] : news) sink_(number, chunk);
    std::vector<Finished> out;
    for (const auto& [number, handle] : handles) {
      try {
        out.push_back({number, handle.get(), {}, 0});
      } catch (const client::ClientError& e) {
        out.push_back({number, {}, InputError(kind_named(e.type()), e.what(), e.param()), 0});
      }
    }
    return out;
  }

 private:
  static constexpr size_t kMaxNews = 4096;

  std::mutex mutex_;
  std::condition_variable changed_, room_;
  bool closing_ = false;
  std::vector<std::pair<uint64_t, proto::RequestChunk>> news_;  // of streams
  std::vector<uint64_t> done_;
  std::map<uint64_t, client::RequestHandle> handles_;
  client::Client client_;  // its callbacks use the others
};

}  // namespace

std::unique_ptr<Backend> make_local_backend(std::unique_ptr<LLMEngine> engine) {
  return std::make_unique<LocalBackend>(std::move(engine));
}

std::unique_ptr<Backend> make_client_backend(client::Client client) {
  return std::make_unique<ClientBackend>(std::move(client));
}

}  // namespace tandem::launcher
