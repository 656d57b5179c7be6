#include "server/metrics/process_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <ctime>
#include <map>
#include <sstream>
#include <string>

namespace tandem::server {
namespace {

std::map<std::string, double> values(prometheus::Registry& registry) {
  std::map<std::string, double> out;
  std::istringstream in(prometheus::TextSerializer().Serialize(registry.Collect()));
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("#"))
      out[line.substr(0, line.find(' '))] = std::stod(line.substr(line.rfind(' ')));
  return out;
}

TEST(ProcessMetrics, AreThoseOfThisProcess) {
  prometheus::Registry registry;
  ProcessMetrics metrics(registry);
  metrics.update();
  auto found = values(registry);
  EXPECT_GT(found.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(found.at("process_virtual_memory_bytes"), found.at("process_resident_memory_bytes"));
  EXPECT_GE(found.at("process_open_fds"), 3);
  EXPECT_LE(found.at("process_open_fds"), found.at("process_max_fds"));
  EXPECT_GE(found.at("process_threads"), 1);
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_LT(found.at("process_start_time_seconds"), now + 2);
  EXPECT_GT(found.at("process_start_time_seconds"), now - 3600);
  const double before = found.at("process_cpu_seconds_total");
  volatile double sum = 0;
  while (values(registry).at("process_cpu_seconds_total") < before + 0.02) {
    for (int i = 0; i < 1000000; ++i) sum = sum + i;
    metrics.update();
  }
}

}  // namespace
}  // namespace tandem::server
