// Choosing a device (kernels/core/plugin.h).
#include "kernels/core/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace tandem::plugin_test {
namespace {

// A machine without a driver pays nothing for the plugin beside the program.
TEST(Plugin, StaysOutWhereThereIsNoDriver) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "there is a driver";
  EXPECT_EQ(choose_device("auto").device, Device::kCpu);
  EXPECT_EQ(choose_device("cpu").device, Device::kCpu);
  std::ifstream in("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(maps.find("libtandem_cuda"), std::string::npos);
  EXPECT_EQ(maps.find("libcublas"), std::string::npos);
}

}  // namespace
}  // namespace tandem::plugin_test
