#include "server/http/trace_context.h"

#include <gtest/gtest.h>

#include <utility>

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

TEST(TraceContext, TheFlagsSayWhetherItIsKept) {
  for (const auto& [flags, kept] :
       {std::pair("01", true), {"00", false}, {"03", true}, {"f2", false}}) {
    const std::string header = "00-" + kTrace + "-" + kParent + "-" + flags;
    EXPECT_EQ(trace_of(&header).sampled(), kept) << flags;
  }
  EXPECT_FALSE(TraceContext{}.sampled());
}

TEST(TraceSampler, BeginsATraceWhereThereIsNone) {
  EXPECT_FALSE(TraceSampler{}.begin(nullptr)) << "off";
  const TraceSampler sampler{.on = true};
  const std::string evil = "00-evil";
  for (const std::string* header : {static_cast<const std::string*>(nullptr), &evil}) {
    const TraceContext trace = sampler.begin(header);
    EXPECT_EQ(trace.trace_id.size(), 32u);
    EXPECT_EQ(trace.span_id.size(), 16u);
    EXPECT_EQ(trace.parent_id, "");
    EXPECT_TRUE(trace.sampled());
    EXPECT_EQ(trace.text(), " trace=" + trace.trace_id + " span=" + trace.span_id);
    EXPECT_NE(trace.trace_id, sampler.begin(header).trace_id);
  }
}

TEST(TraceSampler, FollowsTheCaller) {
  const std::string kept = "00-" + kTrace + "-" + kParent + "-01",
                    not_kept = "00-" + kTrace + "-" + kParent + "-00";
  const TraceSampler follows{.on = true, .ratio = 0};
  EXPECT_TRUE(follows.begin(&kept).sampled());
  EXPECT_FALSE(follows.begin(&not_kept).sampled());
  EXPECT_FALSE(follows.begin(nullptr).sampled());
  const TraceSampler all{.on = true, .parent_based = false}, none{true, false, 0};
  EXPECT_TRUE(all.begin(&not_kept).sampled());
  EXPECT_EQ(all.begin(&not_kept).parent_id, kParent);
  EXPECT_FALSE(none.begin(&kept).sampled());
}

TEST(TraceSampler, ARatioIsDecidedByTheTrace) {
  const TraceSampler sampler{.on = true, .parent_based = false, .ratio = 0.25};
  const auto header = [](const std::string& end) {
    return "00-" + std::string(18, '1') + end + "-" + kParent + "-01";
  };
  const std::string least = header("c0000000000000"), less = header("bffffffffff000"),
                    most = header("ffffffffffffff");
  EXPECT_TRUE(sampler.begin(&least).sampled());
  EXPECT_TRUE(sampler.begin(&most).sampled());
  EXPECT_FALSE(sampler.begin(&less).sampled());
  int kept = 0;
  for (int i = 0; i < 4000; ++i) kept += sampler.begin(nullptr).sampled() ? 1 : 0;
  EXPECT_NEAR(kept, 1000, 200);
}

}  // namespace
}  // namespace tandem::server
