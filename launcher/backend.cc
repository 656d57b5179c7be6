#include "launcher/backend.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/request_json.h"

namespace tandem::launcher {
namespace {

class LocalBackend final : public Backend {
 public:
  explicit LocalBackend(std::unique_ptr<LLMEngine> engine) : engine_(std::move(engine)) {}

  void submit(uint64_t number, const nlohmann::json& prompt, const nlohmann::json& params,
              int32_t priority) override {
    engine_->add_request(std::to_string(number), prompt, params, priority);
  }
  std::vector<Finished> poll() override {
    std::vector<Finished> out;
    if (!engine_->has_unfinished_requests()) return out;
    for (proto::RequestOutput& output : engine_->step())
      if (output.finished())
        out.push_back({std::stoull(output.request_id()), std::move(output), {}});
    return out;
  }
  const Tokenizer* tokenizer() const override { return &engine_->tokenizer(); }

 private:
  std::unique_ptr<LLMEngine> engine_;
};

ErrorKind kind_named(const std::string& type) {
  for (const ErrorKind kind :
       {ErrorKind::kInvalidRequest, ErrorKind::kInvalidModel, ErrorKind::kNotSupported,
        ErrorKind::kResource, ErrorKind::kNotFound, ErrorKind::kOverloaded, ErrorKind::kUnavailable,
        ErrorKind::kTimeout, ErrorKind::kInternal})
    if (type == api_name(kind)) return kind;
  return ErrorKind::kUnavailable;  // the connection
}

class ClientBackend final : public Backend {
 public:
  explicit ClientBackend(client::Client client) : client_(std::move(client)) {}
  ~ClientBackend() override { client_.close(); }

  void submit(uint64_t number, const nlohmann::json& prompt, const nlohmann::json& params,
              int32_t priority) override {
    client::Request request;
    request.prompt = client::Prompt::raw_json(dump_line(prompt));
    request.params_json = dump_line(params);
    request.priority = priority;
    // The lock keeps the last chunk from being seen before the handle is known.
    const std::lock_guard lock(mutex_);
    handles_.emplace(number, client_.submit(request, [this, number](const proto::RequestChunk& c) {
      if (!c.finished()) return;
      {
        const std::lock_guard done_lock(mutex_);
        done_.push_back(number);
      }
      changed_.notify_one();
    }));
  }

  std::vector<Finished> poll() override {
    std::vector<uint64_t> done;
    std::vector<std::pair<uint64_t, client::RequestHandle>> handles;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return !done_.empty(); });
      done.swap(done_);
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
    std::vector<Finished> out;
    for (const auto& [number, handle] : handles) {
      try {
        out.push_back({number, handle.get(), {}});
      } catch (const client::ClientError& e) {
        out.push_back({number, {}, InputError(kind_named(e.type()), e.what(), e.param())});
      }
    }
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
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
