// ClientWindow: what a client has been sent, and what it has acknowledged.

#include "runtime/engine/core/client_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

}  // namespace
}  // namespace tandem
