// ClientWindow, and the streams of clients in this process. (Streams of remote clients:
// engine_core_test.cc.)

#include "runtime/engine/stream_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine_core_driver.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::EngineCoreDriver;
using testing_support::letter;
using testing_support::small_request;

TEST(ClientWindow, CreditComesBackWithAcknowledgements) {
  ClientWindow window;
  for (uint64_t i = 1; i <= ClientWindow::kMaxUnacknowledged; ++i) {
    EXPECT_TRUE(window.has_credit());
    EXPECT_EQ(window.next_message(), i);
  }
  EXPECT_FALSE(window.has_credit());
  window.acknowledge(3);
  for (int i = 0; i < 3; ++i) window.next_message();
  EXPECT_FALSE(window.has_credit());
  window.acknowledge(2);  // older than the last one
  EXPECT_FALSE(window.has_credit());
  window.acknowledge(1'000'000);
  EXPECT_TRUE(window.has_credit());
  EXPECT_EQ(window.next_message(), 20u);
}

TEST(ClientWindow, AcknowledgementsAreCumulative) {
  ClientWindow window;
  for (int i = 0; i < 5; ++i) window.next_message();
  window.wait_for_acknowledgement(2, "a");
  window.wait_for_acknowledgement(3, "b");
  window.wait_for_acknowledgement(3, "c");
  window.wait_for_acknowledgement(5, "d");
  EXPECT_THAT(window.acknowledge(1), IsEmpty());
  EXPECT_THAT(window.acknowledge(4), ElementsAre("a", "b", "c"));
  EXPECT_THAT(window.acknowledge(4), IsEmpty());
  EXPECT_THAT(window.acknowledge(5), ElementsAre("d"));
}

constexpr ClientId kDirect = 7;

// Nothing is acknowledged, nothing is held back, and nothing is kept behind the end.
TEST(DirectClients, HaveWhatTheyWereGiven) {
  EngineCoreDriver engine;
  engine.core().client_connected(kDirect, ClientKind::kDirect);
  engine.up();
  engine.submit(kDirect, "a", small_request(1, 100));
  for (int i = 0; i < 99; ++i) engine.token(0, "a", 'x');
  const auto chunks = engine.chunks(kDirect);
  ASSERT_EQ(chunks.size(), 99u);
  EXPECT_EQ(chunks[98].outputs(0).token_offset(), 98);
  engine.token(0, "a", 'x');
  EXPECT_TRUE(engine.chunks(kDirect).at(0).finished());
  EXPECT_EQ(engine.core().num_requests(), 0u);
  EXPECT_TRUE(engine.core().idle());
  engine.submit(kDirect, "a");  // the id is free at once
  engine.core().cancel("a", engine.now);
  EXPECT_THAT(engine.chunks(kDirect), IsEmpty());
}

TEST(DirectClients, MayBeGone) {
  EngineCoreDriver engine({.orphan_timeout = 5});
  engine.core().client_connected(kDirect, ClientKind::kDirect);
  engine.up();
  engine.submit(kDirect, "a");
  engine.submit(kDirect, "b");
  engine.core().client_gone(kDirect, engine.now);
  engine.step(0, engine.output("a", 2));
  engine.tick(6);
  EXPECT_EQ(engine.core().num_unfinished(), 0u);
  EXPECT_THAT(engine.chunks(kDirect), IsEmpty());
}

TEST(DirectClients, HearOfErrors) {
  EngineCoreDriver engine;
  engine.core().client_connected(kDirect, ClientKind::kDirect);
  engine.reserve(kDirect, "a");
  engine.core().failed("a", InputError(ErrorKind::kInvalidRequest, "no"), engine.now);
  EXPECT_EQ(engine.error(kDirect), "invalid_request_error");
  EXPECT_EQ(engine.core().num_requests(), 0u);
}

}  // namespace
}  // namespace tandem
