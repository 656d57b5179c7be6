#include "launcher/http/http_engine.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "client/local/cluster_client.h"

namespace tandem::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPeriod{200};       // of the engine's figures
constexpr std::chrono::milliseconds kRefusalHolds{20};  // for whoever asks next

class HttpEngine final : public server::EngineApi {
 public:
  explicit HttpEngine(actors::Cluster& cluster)
      : cluster_(cluster),
        client_(client::connect_to(cluster, "http")),
        poller_([this] { poll(); }) {}

  ~HttpEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    poller_.join();
    client_.close();
  }

  void submit(const Request& r, OnChunk on_chunk) override {
    client::Request request;
    request.id = r.id;
    request.prompt = client::Prompt::raw_json(r.prompt_json);
    request.params_json = r.params_json;
    request.timeout = r.timeout;
    request.priority = r.priority;
    request.batch = r.batch;
    // The lock keeps the last chunk from being seen before the handle is known.
    const std::lock_guard lock(handles_mutex_);
    handles_.emplace(r.id,
                     client_.submit(request, [this, id = r.id, on_chunk = std::move(on_chunk)](
                                                 const proto::RequestChunk& chunk) {
                       on_chunk(chunk);
                       if (!chunk.finished() && !chunk.has_error()) return;
                       if (chunk.has_error()) note_refusal(chunk.error());
                       const std::lock_guard ended(handles_mutex_);
                       handles_.erase(id);
                     }));
  }

  void cancel(const std::string& id) override {
    std::optional<client::RequestHandle> handle;
    {
      const std::lock_guard lock(handles_mutex_);
      const auto it = handles_.find(id);
      if (it == handles_.end()) return;
      handle = it->second;
    }
    handle->cancel();
  }

  // The engine is asked for some of them only; the others get the same answer.
  std::optional<proto::Error> refuse_unread() override {
    const std::lock_guard lock(refusal_mutex_);
    if (Clock::now() >= refused_until_) return std::nullopt;
    ++num_refused_here_;
    return refusal_;
  }

  server::EngineStatus status() override {
    server::EngineStatus status;
    {
      const std::lock_guard lock(mutex_);
      status.info = info_;
    }
    // What the cluster knows at once counts; the figures may be a little older.
    status.info.set_refused_queue_time(status.info.refused_queue_time() + num_refused_here_);
    const actors::ClusterStatus now = cluster_.status();
    status.ready = now.replicas_up > 0 && !now.given_up;
    status.draining = status.info.draining() || now.drained || now.stopped;
    status.info.set_num_restarts(now.restarts);
    if (now.given_up)
      status.reason = "the workers cannot be kept alive: " + *now.given_up;
    else if (!status.ready)
      status.reason =
          now.restarts > 0 ? "the workers are being started again" : "the model is being loaded";
    return status;
  }

 private:
  void note_refusal(const proto::Error& error) {
    if (error.type() != "overloaded_error" || !error.param().empty()) return;
    const std::lock_guard lock(refusal_mutex_);
    refusal_ = error;
    refused_until_ = Clock::now() + kRefusalHolds;
  }

  void poll() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      std::optional<proto::ServerInfo> info;
      const auto answer = client_.server_info_async();
      if (answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready) {
        try {
          info = answer.get();
        } catch (const client::ClientError&) {
          // No engine any more; the cluster's status says why.
        }
      }
      lock.lock();
      if (info) info_ = std::move(*info);
      changed_.wait_for(lock, kPeriod, [this] { return stopping_; });
    }
  }

  actors::Cluster& cluster_;
  std::recursive_mutex handles_mutex_;  // a client that is closed calls back at once
  std::unordered_map<std::string, client::RequestHandle> handles_;
  std::mutex refusal_mutex_;
  proto::Error refusal_;  // the engine's last
  Clock::time_point refused_until_{};
  std::atomic<int64_t> num_refused_here_{0};
  client::Client client_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  proto::ServerInfo info_;
  bool stopping_ = false;
  std::thread poller_;
};

}  // namespace

std::unique_ptr<server::EngineApi> make_http_engine(actors::Cluster& cluster) {
  return std::make_unique<HttpEngine>(cluster);
}

}  // namespace tandem::launcher
