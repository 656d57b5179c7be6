// The engine's thread: what has been asked for since the last step, then a step, and so on.
#include "runtime/engine/local_engine.h"

#include <chrono>
#include <deque>
#include <exception>
#include <future>
#include <thread>
#include <utility>
#include <variant>

#include "base/mutex.h"
#include "runtime/engine/engine_shell.h"
#include "runtime/engine/local_streams.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTickInterval{100};

}  // namespace

class LocalEngine::Loop {
 public:
  Loop(const EngineConfig& config, const LoadProgress& progress);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void submit(Request request, OnChunk on_chunk);
  void cancel(const std::string& id) { add(id); }
  EngineStatus status() const;
  const RequestProcessor& processor() const { return std::as_const(*shell_).processor(); }

 private:
  struct Submission {
    proto::SubmitRequest submit;
    std::optional<MediaSource> sound;
    std::shared_ptr<LocalStream> stream;
  };
  using Event = std::variant<Submission, std::string>;  // a request, or the id of a cancelled one

  void add(Event event);
  // --- The engine's thread ---
  void run(const EngineConfig& config, const LoadProgress& progress, std::promise<void> loaded);
  bool wait();
  void take_events();
  void take(Submission submission);
  void cancel_now(const std::string& id);
  void prepare(const Submission& submission);
  bool feed_sound();
  bool step();
  void tick();
  void publish();

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::deque<Event> events_ GUARDED_BY(mutex_);  // oldest first
  EngineStatus status_ GUARDED_BY(mutex_);

  const int most_events_;             // between two steps
  std::optional<EngineShell> shell_;  // while the thread runs; the rest is the thread's alone
  LocalStreams streams_;
  std::deque<Submission> sounds_;  // that wait until there is room for what is in them
  bool busy_ = false;              // there is something to do at once
  std::string failure_;            // why nothing is computed any more; "": all is well
  Clock::time_point last_tick_{};
  std::thread thread_;
};

LocalEngine::Loop::Loop(const EngineConfig& config, const LoadProgress& progress)
    : most_events_(config.scheduling().max_num_seqs()) {
  std::promise<void> promise;
  std::future<void> loaded = promise.get_future();
  thread_ = std::thread(
      [&, promise = std::move(promise)]() mutable { run(config, progress, std::move(promise)); });
  try {
    loaded.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

LocalEngine::Loop::~Loop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LocalEngine::Loop::submit(Request request, OnChunk on_chunk) {
  auto stream = std::make_shared<LocalStream>(request.id, std::move(on_chunk));
  proto::SubmitRequest submit = to_submit(request);
  add(Submission{std::move(submit), std::move(request.sound), std::move(stream)});
}

// From a callback of the engine's end it is dropped, and its stream fails.
void LocalEngine::Loop::add(Event event) {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    events_.push_back(std::move(event));
  }
  changed_.notify_one();
}

EngineStatus LocalEngine::Loop::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

// --- The engine's thread -------------------------------------------------------------------------

// A device belongs to the thread that opened it: the model is loaded, and destroyed, here.
void LocalEngine::Loop::run(const EngineConfig& config, const LoadProgress& progress,
                            std::promise<void> loaded) {
  try {
    shell_.emplace(config, progress,
                   [this](proto::RequestChunk chunk) { streams_.deliver(std::move(chunk)); });
    publish();
  } catch (...) {
    loaded.set_exception(std::current_exception());
    return;
  }
  loaded.set_value();  // config and progress are gone from here on
  while (wait()) {
    take_events();
    const bool prepared = feed_sound();
    const bool stepped = step();
    busy_ = prepared || stepped;
    if (Clock::now() - last_tick_ >= kTickInterval || shell_->num_requests() == 0) tick();
  }
  // What has not ended hears of it from its stream.
  std::deque<Event> unread;
  {
    const MutexLock lock(mutex_);
    unread.swap(events_);
  }
  unread.clear();
  while (streams_.size() > 0) streams_.take(streams_.any());
  shell_.reset();
}

// Until there is something to do; false: the engine ends.
bool LocalEngine::Loop::wait() {
  const bool idle = shell_->num_requests() == 0;
  const auto next_tick = Clock::now() + kTickInterval;
  const MutexLock lock(mutex_);
  while (!stopping_ && events_.empty()) {
    if (idle)
      changed_.wait(mutex_);
    else if (busy_ || !changed_.wait_until(mutex_, next_tick))
      break;
  }
  return !stopping_;
}

// What arrives while others are taken comes too: requests that are submitted together start
// together.
void LocalEngine::Loop::take_events() {
  for (int i = 0; i < most_events_; ++i) {
    MutexLock lock(mutex_);
    if (stopping_ || events_.empty()) return;
    Event event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    if (auto* submission = std::get_if<Submission>(&event))
      take(std::move(*submission));
    else
      cancel_now(std::get<std::string>(event));
  }
}

void LocalEngine::Loop::take(Submission submission) {
  try {
    shell_->reserve(submission.submit);
  } catch (const InputError& error) {
    return submission.stream->fail(error);
  }
  streams_.add(std::move(submission.stream));
  if (submission.submit.prompt().encoder().has_sound())
    sounds_.push_back(std::move(submission));
  else
    prepare(submission);
}

void LocalEngine::Loop::cancel_now(const std::string& id) {
  const auto stream = streams_.take(id);
  if (!stream) return;  // it has ended
  shell_->cancel(id);
  stream->fail(cancelled_error());
}

void LocalEngine::Loop::prepare(const Submission& submission) {
  const proto::SubmitRequest& submit = submission.submit;
  RequestProcessor& processor = shell_->processor();
  std::optional<PreparedRequest> prepared;
  try {
    prepared = submission.sound
                   ? processor.prepare(*submission.sound, submit.prompt(), submit.options())
                   : processor.prepare(submit.prompt(), submit.options());
  } catch (const InputError& error) {
    return shell_->failed(submit.request_id(), error);
  } catch (const std::exception& error) {
    return shell_->failed(submit.request_id(), InputError(ErrorKind::kInternal, error.what()));
  }
  shell_->prepared(submit.request_id(), std::move(*prepared));
}

// One sound between two steps, if there is memory for it. Returns whether one was read.
bool LocalEngine::Loop::feed_sound() {
  while (!sounds_.empty() && shell_->takes_sound()) {
    const Submission next = std::move(sounds_.front());
    sounds_.pop_front();
    if (shell_->awaits(next.submit.request_id())) {
      prepare(next);
      return true;
    }
    shell_->failed(next.submit.request_id(), InputError(ErrorKind::kTimeout, "given up"));
  }
  return false;
}

bool LocalEngine::Loop::step() {
  if (!failure_.empty()) return false;
  try {
    return shell_->step();
  } catch (const std::exception& error) {
    failure_ = error.what();
    shell_->give_up(failure_);
    publish();
    return false;
  }
}

void LocalEngine::Loop::tick() {
  last_tick_ = Clock::now();
  shell_->tick();
  publish();
}

void LocalEngine::Loop::publish() {
  EngineStatus status;
  status.ready = failure_.empty();
  status.reason = failure_;
  status.info = shell_->info();
  const MutexLock lock(mutex_);
  status_ = std::move(status);
}

// --- The engine ----------------------------------------------------------------------------------

LocalEngine::LocalEngine(const EngineConfig& config, const LoadProgress& progress)
    : loop_(std::make_unique<Loop>(config, progress)) {}

LocalEngine::~LocalEngine() = default;

void LocalEngine::submit(Request request, OnChunk on_chunk) {
  loop_->submit(std::move(request), std::move(on_chunk));
}

void LocalEngine::cancel(const std::string& id) { loop_->cancel(id); }

EngineStatus LocalEngine::status() { return loop_->status(); }

const RequestProcessor& LocalEngine::request_processor() const { return loop_->processor(); }

}  // namespace tandem
