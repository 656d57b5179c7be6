#include "actors/in_process_engine.h"

#include <chrono>
#include <utility>

#include "actors/cluster_impl.h"
#include "base/mutex.h"

namespace tandem::actors {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRefusalHolds{20};  // for whoever asks next

// The engine's last refusal: it is asked for some requests only, the others get the same answer.
class Refusals {
 public:
  void note(const proto::Error& error) {
    if (error.type() != "overloaded_error" || !error.param().empty()) return;
    const MutexLock lock(mutex_);
    last_ = error;
    holds_until_ = Clock::now() + kRefusalHolds;
  }
  std::optional<proto::Error> repeat() {
    const MutexLock lock(mutex_);
    if (Clock::now() >= holds_until_) return std::nullopt;
    ++num_repeated_;
    return last_;
  }
  int64_t num_repeated() const {
    const MutexLock lock(mutex_);
    return num_repeated_;
  }

 private:
  mutable Mutex mutex_;
  proto::Error last_ GUARDED_BY(mutex_);
  Clock::time_point holds_until_ GUARDED_BY(mutex_){};
  int64_t num_repeated_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

struct InProcessEngine::Impl {
  caf::actor_system& system;
  EngineActorHandle engine;
  std::shared_ptr<Shared> shared;
  std::shared_ptr<Refusals> refusals = std::make_shared<Refusals>();
};

InProcessEngine::InProcessEngine(Cluster& cluster)
    : impl_(new Impl{*cluster.impl().system, cluster.impl().engine, cluster.impl().shared}) {}

InProcessEngine::~InProcessEngine() { close(); }

void InProcessEngine::submit(Request r, OnChunk on_chunk) {
  auto stream = std::make_shared<LocalStream>(
      r.id, [refusals = impl_->refusals, on_chunk = std::move(on_chunk)](proto::RequestChunk c) {
        if (c.has_error()) refusals->note(c.error());
        on_chunk(std::move(c));
      });
  proto::ClientMessage message;
  *message.mutable_submit() = to_submit(r);
  caf::anon_send(impl_->engine, LocalSubmit{ClientMessage(std::move(message)), std::move(r.sound),
                                            std::move(stream)});
}

void InProcessEngine::cancel(const std::string& id) {
  caf::anon_send(impl_->engine, LocalCancel{id});
}

bool InProcessEngine::enter_unread(const std::string& id, std::function<void()> on_turn) {
  return impl_->shared->unread.enter(id, std::move(on_turn), now());
}

void InProcessEngine::leave_unread(const std::string& id) {
  impl_->shared->unread.leave(id, now());
}

std::optional<proto::Error> InProcessEngine::refuse_unread() { return impl_->refusals->repeat(); }

EngineStatus InProcessEngine::status() {
  EngineStatus status;
  status.info = impl_->shared->info.get();
  // Without a bound of time only the number of requests makes the engine refuse everybody.
  const int64_t repeated = impl_->refusals->num_repeated();
  if (impl_->shared->config.requests.admission.max_queue_time > 0)
    status.info.set_refused_queue_time(status.info.refused_queue_time() + repeated);
  else
    status.info.set_refused_full(status.info.refused_full() + repeated);
  // What the cluster knows at once counts; the figures may be a little older.
  const ClusterStatus now = impl_->shared->board.get();
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

void InProcessEngine::close() {
  // An engine that has ended has let go of everything before it lets us know.
  caf::scoped_actor self(impl_->system);
  self->request(impl_->engine, caf::infinite, LocalClose{})
      .receive([] {}, [](const caf::error&) {});
}

}  // namespace tandem::actors
