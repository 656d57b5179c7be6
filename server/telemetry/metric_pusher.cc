#include "server/telemetry/metric_pusher.h"

#include <utility>

#include "server/telemetry/otlp_json.h"
#include "server/telemetry/unix_time.h"

namespace tandem::server {

MetricPusher::MetricPusher(std::chrono::milliseconds interval, std::chrono::milliseconds end,
                           Attributes resource, std::unique_ptr<OtlpTransport> transport,
                           Metrics& metrics, Collect collect)
    : interval_(interval),
      end_(end),
      resource_(std::move(resource)),
      transport_(std::move(transport)),
      metrics_(metrics),
      collect_(std::move(collect)),
      begin_(unix_nanoseconds()),
      log_("metrics", transport_->address()),
      thread_([this] { run(); }) {}

MetricPusher::~MetricPusher() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  transport_->end_within(end_);
  changed_.notify_all();
  thread_.join();
}

void MetricPusher::run() {
  while (true) {
    const auto deadline = std::chrono::steady_clock::now() + interval_;
    bool last = false;
    {
      const MutexLock lock(mutex_);
      while (!ending_ && changed_.wait_until(mutex_, deadline)) {
      }
      last = ending_;
    }
    push();
    if (last) return;
  }
}

void MetricPusher::push() {
  const Delivery delivery =
      transport_->send(metrics_to_json(resource_, collect_(), begin_, unix_nanoseconds()));
  if (delivery.result == Delivery::Result::kTaken) {
    const PartialSuccess partial = partial_success(delivery.answer);
    if (partial.rejected <= 0) return log_.worked();
    metrics_.export_failed("metrics");
    return log_.failed("the collector rejects " + std::to_string(partial.rejected) +
                           " data points: " + partial.message,
                       0);
  }
  metrics_.export_failed("metrics");
  log_.failed(delivery.why, 0);
}

}  // namespace tandem::server
