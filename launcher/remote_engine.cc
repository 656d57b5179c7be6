#include "launcher/remote_engine.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/request_error.h"

namespace tandem::launcher {
namespace {

// Requests under way, for those who cancel them. The client's callbacks hold it too.
class Handles {
 public:
  // False: there is one of that id.
  bool reserve(const std::string& id) {
    const MutexLock lock(mutex_);
    return slots_.try_emplace(id).second;
  }
  // It may have ended, or been cancelled, since its reservation.
  void set(const std::string& id, client::RequestHandle handle) {
    const MutexLock lock(mutex_);
    const auto it = slots_.find(id);
    if (it == slots_.end()) return;
    if (it->second.cancelled) handle.cancel();
    it->second.handle = std::move(handle);
  }
  void cancel(const std::string& id) {
    const MutexLock lock(mutex_);
    const auto it = slots_.find(id);
    if (it == slots_.end()) return;
    it->second.cancelled = true;
    if (it->second.handle) it->second.handle->cancel();
  }
  void remove(const std::string& id) {
    const MutexLock lock(mutex_);
    slots_.erase(id);
  }

 private:
  struct Slot {
    std::optional<client::RequestHandle> handle;
    bool cancelled = false;
  };
  Mutex mutex_;
  std::unordered_map<std::string, Slot> slots_ GUARDED_BY(mutex_);
};

void fail(const std::string& id, const InputError& error, const EngineApi::OnChunk& on_chunk) {
  proto::RequestChunk chunk;
  chunk.set_request_id(id);
  chunk.set_finished(true);
  *chunk.mutable_error() = to_proto(error);
  on_chunk(std::move(chunk));
}

}  // namespace

struct RemoteEngine::Impl {
  explicit Impl(client::Client connected) : client(std::move(connected)) {}

  std::shared_ptr<Handles> handles = std::make_shared<Handles>();
  Mutex mutex;
  std::shared_future<proto::ServerInfo> asked GUARDED_BY(mutex);
  EngineStatus status GUARDED_BY(mutex);
  client::Client client;
};

RemoteEngine::RemoteEngine(client::Client client) : impl_(new Impl(std::move(client))) {
  const MutexLock lock(impl_->mutex);
  impl_->status.reason = "the server has not answered yet";
  impl_->asked = impl_->client.server_info_async();
}

RemoteEngine::~RemoteEngine() { impl_->client.close(); }

void RemoteEngine::submit(Request r, OnChunk on_chunk) {
  client::Request request;
  request.id = r.id;
  try {
    if (r.sound) {
      proto::PromptPart& part = *r.prompt.mutable_encoder();
      part.mutable_sound()->set_file(r.sound->bytes(part.field(), kMaxSoundBytes));
    }
    if (!impl_->handles->reserve(r.id))
      throw invalid_request("request_id", "\"" + r.id + "\" is in use");
  } catch (const InputError& error) {
    return fail(r.id, error, on_chunk);
  }
  request.prompt = client::Prompt(std::move(r.prompt));
  request.options = std::move(r.options);
  request.timeout = r.timeout;
  request.priority = r.priority;
  request.batch = std::move(r.batch);
  auto handle = impl_->client.submit(
      request,
      [handles = impl_->handles, on_chunk = std::move(on_chunk)](const proto::RequestChunk& chunk) {
        if (chunk.finished()) handles->remove(chunk.request_id());
        on_chunk(chunk);
      });
  impl_->handles->set(r.id, std::move(handle));
}

void RemoteEngine::cancel(const std::string& id) { impl_->handles->cancel(id); }

EngineStatus RemoteEngine::status() {
  const MutexLock lock(impl_->mutex);
  EngineStatus& status = impl_->status;
  if (impl_->asked.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return status;
  try {
    status.info = impl_->asked.get();
    status.draining = status.info.draining();
    const auto& replicas = status.info.replicas();
    status.ready = std::any_of(replicas.begin(), replicas.end(),
                               [](const proto::ReplicaInfo& replica) { return replica.up(); });
    status.reason = status.ready ? "" : "the server's workers are down";
  } catch (const client::ClientError& error) {
    status.ready = false;
    status.reason = error.what();
  }
  impl_->asked = impl_->client.server_info_async();
  return status;
}

}  // namespace tandem::launcher
