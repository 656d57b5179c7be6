#include "server/telemetry/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log/log.h"
#include "server/telemetry/otlp_json.h"

namespace tandem::server {
namespace {

constexpr std::chrono::milliseconds kLongestPause(30000);

using Result = Delivery::Result;

}  // namespace

SpanExporter::SpanExporter(const SpanExporterSettings& settings, Attributes resource,
                           std::unique_ptr<OtlpTransport> transport, Metrics& metrics)
    : settings_(settings),
      resource_(std::move(resource)),
      transport_(std::move(transport)),
      metrics_(metrics),
      log_("traces", transport_->address()),
      thread_([this] { run(); }) {}

SpanExporter::~SpanExporter() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  transport_->end_within(settings_.end);
  changed_.notify_all();
  thread_.join();
  if (const int64_t lost = dropped(); lost > 0)
    log_warning("traces to {}: {} spans have been dropped in all", transport_->address(), lost);
}

void SpanExporter::add(std::vector<Span> spans) {
  const MutexLock lock(mutex_);
  const bool was_empty = queue_.empty();
  const size_t room = settings_.max_queue - std::min(settings_.max_queue, queue_.size());
  if (spans.size() > room) {
    const auto lost = static_cast<int64_t>(spans.size() - room);
    dropped_ += lost;
    overflowed_ += lost;
    metrics_.spans_dropped(lost);
    spans.resize(room);
  }
  std::move(spans.begin(), spans.end(), std::back_inserter(queue_));
  // The thread sleeps without spans, and else until it has a batch.
  if (was_empty || queue_.size() >= settings_.max_batch) changed_.notify_all();
}

std::vector<Span> SpanExporter::next_batch() {
  if (queue_.size() <= settings_.max_batch) return std::exchange(queue_, {});
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(settings_.max_batch);
  std::vector<Span> batch(std::move_iterator(queue_.begin()), std::move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

void SpanExporter::run() {
  using Clock = std::chrono::steady_clock;
  MutexLock lock(mutex_);
  while (true) {
    while (queue_.empty() && !ending_) changed_.wait(mutex_);
    const Clock::time_point deadline = Clock::now() + settings_.delay;
    while (!ending_ && queue_.size() < settings_.max_batch &&
           changed_.wait_until(mutex_, deadline)) {
    }
    if (queue_.empty()) return;  // it is ending
    const std::vector<Span> batch = next_batch();
    lock.unlock();
    deliver(batch);
    lock.lock();
    if (const int64_t lost = std::exchange(overflowed_, 0); lost > 0) {
      const int64_t all = dropped_;
      lock.unlock();
      log_.failed("spans come faster than the collector takes them", all);
      lock.lock();
    }
  }
}

void SpanExporter::deliver(const std::vector<Span>& batch) {
  const std::string json = traces_to_json(resource_, batch);
  std::chrono::milliseconds pause_time = settings_.first_pause;
  for (int tries = 1;; ++tries, pause_time *= 2) {
    const Delivery delivery = transport_->send(json);
    if (delivery.result == Result::kTaken) {
      const PartialSuccess partial = partial_success(delivery.answer);
      const auto size = static_cast<int64_t>(batch.size());
      const int64_t rejected = std::clamp<int64_t>(partial.rejected, 0, size);
      metrics_.spans_exported(size - rejected);
      if (rejected == 0) return log_.worked();
      return drop(static_cast<size_t>(rejected), "the collector rejects spans: " + partial.message);
    }
    metrics_.export_failed("traces");
    if (delivery.result == Result::kRefused || tries >= settings_.tries)
      return drop(batch.size(), delivery.why);
    log_.failed(delivery.why, dropped());
    if (!pause(std::min(delivery.retry_after.value_or(pause_time), kLongestPause)))
      return drop(batch.size(), delivery.why);
  }
}

// False: the exporter is ending, and there is no time for another try.
bool SpanExporter::pause(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  const MutexLock lock(mutex_);
  while (!ending_ && changed_.wait_until(mutex_, deadline)) {
  }
  return !ending_;
}

int64_t SpanExporter::dropped() {
  const MutexLock lock(mutex_);
  return dropped_;
}

void SpanExporter::drop(size_t spans, const std::string& why) {
  {
    const MutexLock lock(mutex_);
    dropped_ += static_cast<int64_t>(spans);
  }
  metrics_.spans_dropped(static_cast<int64_t>(spans));
  log_.failed(why, dropped());
}

}  // namespace tandem::server
