#include "server/http/trace_context.h"

#include <gtest/gtest.h>

namespace tandem::server {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kParent = "00f067aa0ba902b7";

TEST(TraceContext, KeepsTheTraceInASpanOfItsOwn) {
  const std::string header = "00-" + kTrace + "-" + kParent + "-01";
  const TraceContext trace = trace_of(&header);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace.trace_id, kTrace);
  EXPECT_EQ(trace.parent_id, kParent);
  EXPECT_EQ(trace.span_id.size(), 16u);
  EXPECT_NE(trace.span_id, kParent);
  EXPECT_NE(trace.span_id, trace_of(&header).span_id);
  EXPECT_EQ(trace.response(), "00-" + kTrace + "-" + trace.span_id + "-01");
  EXPECT_EQ(trace.text(), " trace=" + kTrace + " span=" + trace.span_id + " parent=" + kParent);
}

TEST(TraceContext, LaterVersionsMaySayMore) {
  const std::string header = "01-" + kTrace + "-" + kParent + "-00-more";
  EXPECT_EQ(trace_of(&header).trace_id, kTrace);
}

TEST(TraceContext, WhatIsNone) {
  EXPECT_FALSE(trace_of(nullptr));
  EXPECT_EQ(TraceContext{}.text(), "");
  for (const std::string& header :
       {std::string(), std::string("00"), "00-" + kTrace + "-" + kParent,
        "ff-" + kTrace + "-" + kParent + "-01", "00-" + kTrace + "-" + kParent + "-01-more",
        "01-" + kTrace + "-" + kParent + "-01more",
        "00-" + std::string(32, '0') + "-" + kParent + "-01",
        "00-" + kTrace + "-" + std::string(16, '0') + "-01",
        "00-" + std::string(32, 'A') + "-" + kParent + "-01",
        "00_" + kTrace + "-" + kParent + "-01", "00-" + kTrace + "-" + kParent + "-\n1"})
    EXPECT_FALSE(trace_of(&header)) << header;
}

}  // namespace
}  // namespace tandem::server
