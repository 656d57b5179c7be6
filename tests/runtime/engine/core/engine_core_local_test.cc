// EngineCore and a client that acknowledges nothing, because it is in the same process.
#include <gtest/gtest.h>

#include "tests/support/engine/engine_core_driver.h"

namespace tandem::engine_core_local_test {
namespace {

using testing_support::EngineCoreDriver;
using testing_support::small_request;

constexpr ClientId kHere = 0, kRemote = 1;

class LocalClientTest : public ::testing::Test, public EngineCoreDriver {
 protected:
  LocalClientTest() {
    core().client_connected(kHere, ClientKind::kDirect);
    core().client_connected(kRemote);
    up();
  }
};

TEST_F(LocalClientTest, HasNoWindow) {
  submit(kHere, "a", small_request(1, 200));
  submit(kRemote, "b", small_request(1, 200));
  constexpr int kSteps = 100;
  for (int i = 0; i < kSteps; ++i) {
    token(0, "a", 'x');
    token(0, "b", 'y');
  }
  EXPECT_GE(chunks(kHere).size(), static_cast<size_t>(kSteps));  // each step's
  EXPECT_LE(chunks(kRemote).size(), ClientWindow::kMaxUnacknowledged);
}

TEST_F(LocalClientTest, IsForgottenWithItsLastChunk) {
  submit(kHere, "a");
  token(0, "a", 'x');
  EXPECT_FALSE(core().idle());
  step(0, output("a", 2));
  EXPECT_TRUE(chunks(kHere).back().finished());
  EXPECT_EQ(core().num_requests(), 0u);
  EXPECT_TRUE(core().idle());
  submit(kHere, "a");  // the id is free again
  token(0, "a", 'x');
  core().give_up("all is lost", now);
  core().check_integrity();
  EXPECT_EQ(chunks(kHere).back().error().type(), "unavailable_error");
  EXPECT_EQ(core().num_requests(), 0u);
}

// The remote client's wait does not keep the local one's requests, nor the other way round.
TEST_F(LocalClientTest, ErrorsAndDeadlinesAreLastChunksToo) {
  submit(kHere, "late", small_request(), /*timeout=*/1);
  submit(kRemote, "late too", small_request(), /*timeout=*/1);
  reserve(kHere, "wrong");
  core().failed("wrong", InputError(ErrorKind::kInvalidRequest, "no"), now);
  core().check_integrity();
  EXPECT_EQ(chunks(kHere).back().error().type(), "invalid_request_error");
  tick(2);
  EXPECT_EQ(chunks(kHere).back().error().type(), "timeout_error");
  EXPECT_EQ(core().num_requests(), 1u);
  acknowledge(kRemote);
  EXPECT_EQ(core().num_requests(), 0u);
}

}  // namespace
}  // namespace tandem::engine_core_local_test
