// Sends all metrics to a collector at intervals, from a thread of its own, and once more at its
// end. What a collector does not take is in the next message too: sums only grow.
#pragma once

#include <prometheus/metric_family.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/telemetry/export_log.h"
#include "server/telemetry/span.h"
#include "server/telemetry/transport.h"

namespace tandem::server {

class MetricPusher {
 public:
  using Collect = std::function<std::vector<prometheus::MetricFamily>()>;

  // end: what the last message has. metrics, and what collect() needs, outlive it.
  MetricPusher(std::chrono::milliseconds interval, std::chrono::milliseconds end,
               Attributes resource, std::unique_ptr<OtlpTransport> transport, Metrics& metrics,
               Collect collect);
  ~MetricPusher();
  MetricPusher(const MetricPusher&) = delete;
  MetricPusher& operator=(const MetricPusher&) = delete;

 private:
  void run() EXCLUDES(mutex_);
  void push();

  const std::chrono::milliseconds interval_, end_;
  const Attributes resource_;
  const std::unique_ptr<OtlpTransport> transport_;
  Metrics& metrics_;
  const Collect collect_;
  const int64_t begin_;  // nanoseconds since 1970
  ExportLog log_;        // the thread's
  Mutex mutex_;
  CondVar changed_;
  bool ending_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::server
