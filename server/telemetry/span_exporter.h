// Sends spans to a collector from a thread of its own. What waits is bounded: spans beyond are
// dropped and counted, so that a collector that is slow or gone holds no request up.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/telemetry/export_log.h"
#include "server/telemetry/span.h"
#include "server/telemetry/transport.h"

namespace tandem::server {

// OpenTelemetry's defaults.
struct SpanExporterSettings {
  size_t max_queue = 2048;  // spans that wait
  size_t max_batch = 512;   // spans of a message
  std::chrono::milliseconds delay{5000};
  // Between tries, doubled each time.
  std::chrono::milliseconds first_pause{1000};
  int tries = 6;
  std::chrono::milliseconds end{2000};  // that the last spans have
};

class SpanExporter {
 public:
  // metrics outlive it.
  SpanExporter(const SpanExporterSettings& settings, Attributes resource,
               std::unique_ptr<OtlpTransport> transport, Metrics& metrics);
  // Sends what waits, for as long as the settings allow.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // Any thread; does not wait.
  void add(std::vector<Span> spans) EXCLUDES(mutex_);

 private:
  void run() EXCLUDES(mutex_);
  std::vector<Span> next_batch() REQUIRES(mutex_);
  void deliver(const std::vector<Span>& batch) EXCLUDES(mutex_);
  bool pause(std::chrono::milliseconds time) EXCLUDES(mutex_);
  int64_t dropped() EXCLUDES(mutex_);
  void drop(size_t spans, const std::string& why) EXCLUDES(mutex_);

  const SpanExporterSettings settings_;
  const Attributes resource_;
  const std::unique_ptr<OtlpTransport> transport_;
  Metrics& metrics_;
  ExportLog log_;  // the thread's
  Mutex mutex_;
  CondVar changed_;
  std::vector<Span> queue_ GUARDED_BY(mutex_);
  int64_t dropped_ GUARDED_BY(mutex_) = 0;
  int64_t overflowed_ GUARDED_BY(mutex_) = 0;  // of these, that the log does not know of
  bool ending_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::server
