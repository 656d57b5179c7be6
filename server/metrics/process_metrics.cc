#include "server/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::server {
namespace {

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

// The fields of /proc/self/stat behind the program's name, which may have blanks: the first one is
// the third of proc(5).
std::vector<double> stat_fields() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(')');
  std::vector<double> out;
  if (name_end == std::string::npos) return out;
  std::istringstream fields(line.substr(name_end + 1));
  std::string state;
  fields >> state;
  out.push_back(0);
  for (double value; fields >> value;) out.push_back(value);
  return out;
}

// When the system started, in seconds since 1970.
double boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string word; in >> word;)
    if (double seconds = 0; word == "btime" && in >> seconds) return seconds;
  return 0;
}

}  // namespace

ProcessMetrics::ProcessMetrics(prometheus::Registry& registry)
    : cpu_seconds_(prometheus::BuildCounter()
                       .Name("process_cpu_seconds_total")
                       .Help("User and system CPU time.")
                       .Register(registry)
                       .Add({})),
      resident_bytes_(gauge(registry, "process_resident_memory_bytes", "Resident memory.")),
      virtual_bytes_(gauge(registry, "process_virtual_memory_bytes", "Virtual memory.")),
      open_fds_(gauge(registry, "process_open_fds", "Open file descriptors.")),
      max_fds_(gauge(registry, "process_max_fds", "Most open file descriptors.")),
      start_time_(gauge(registry, "process_start_time_seconds", "Start, since the Unix epoch.")),
      threads_(gauge(registry, "process_threads", "Threads of the process.")) {}

void ProcessMetrics::update() {
  const std::vector<double> fields = stat_fields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  // By proc(5): utime 14, stime 15, num_threads 20, starttime 22, vsize 23, rss 24.
  const auto field = [&](size_t number) { return fields[number - 3]; };
  if (fields.size() > 24 - 3 && ticks > 0) {
    cpu_seconds_.Increment((field(14) + field(15)) / ticks - cpu_seconds_.Value());
    threads_.Set(field(20));
    virtual_bytes_.Set(field(23));
    resident_bytes_.Set(field(24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
    if (const double boot = boot_time(); boot > 0) start_time_.Set(boot + field(22) / ticks);
  }
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (!error) open_fds_.Set(static_cast<double>(std::distance(begin(open), end(open))));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) max_fds_.Set(static_cast<double>(limit.rlim_cur));
}

}  // namespace tandem::server
