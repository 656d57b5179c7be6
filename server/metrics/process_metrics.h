// The process itself, under the names that every Prometheus client has for it.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <memory>

namespace tandem::server {

// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
// process_open_fds, process_max_fds, process_start_time_seconds, process_threads. What the system
// does not tell is left as it was. One thread at a time.
class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);
  // Reads /proc; to be called before the registry is collected.
  void update();

 private:
  prometheus::Counter& cpu_seconds_;
  prometheus::Gauge &resident_bytes_, &virtual_bytes_, &open_fds_, &max_fds_, &start_time_,
      &threads_;
};

}  // namespace tandem::server
