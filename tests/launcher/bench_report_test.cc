// The figures of tandem bench.
#include "launcher/bench_report.h"

#include <gtest/gtest.h>

#include "kernels/core/error.h"
#include "launcher/bench_client.h"

namespace tandem::launcher {
namespace {

TEST(BenchReport, PercentilesAreNumpys) {
  EXPECT_EQ(percentile({}, 50), 0);
  EXPECT_EQ(percentile({3}, 99), 3);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 90), 3.7);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 100), 4);
}

TEST(BenchReport, Summary) {
  BenchRequest a;
  a.sent = 1;
  a.first = 1.5;
  a.last = 2.5;
  a.gaps = {0.5, 0.5};
  a.input_tokens = 10;
  a.output_tokens = 3;
  a.ok = true;
  BenchRequest slow = a;
  slow.last = 5.5;
  BenchRequest bad;
  bad.error = "HTTP 429";
  BenchOptions options;
  options.percentiles = {50, 99.9};
  options.goodput = {{"ttft", 600}, {"tpot", 1000}};
  const auto s = bench_summary({a, slow, bad}, 2, options);
  EXPECT_EQ(s["completed"], 2);
  EXPECT_EQ(s["failed"], 1);
  EXPECT_EQ(s["errors"]["HTTP 429"], 1);
  EXPECT_DOUBLE_EQ(s["request_throughput"], 1);
  EXPECT_DOUBLE_EQ(s["request_goodput"], 0.5) << "the slow one has 2 s a token";
  EXPECT_DOUBLE_EQ(s["output_throughput"], 3);
  EXPECT_DOUBLE_EQ(s["mean_ttft_ms"], 500);
  EXPECT_DOUBLE_EQ(s["mean_tpot_ms"], 1250);
  EXPECT_DOUBLE_EQ(s["median_e2el_ms"], 3000);
  EXPECT_DOUBLE_EQ(s["std_tpot_ms"], 750);
  EXPECT_TRUE(s.contains("p99.9_itl_ms"));
  EXPECT_NE(bench_table(s).find("1 x HTTP 429"), std::string::npos);
  EXPECT_NE(bench_svg({a, slow, bad}, 6, "t").find("</svg>"), std::string::npos);
}

TEST(BenchClient, BaseUrls) {
  EXPECT_EQ(parse_base_url("http://host:81").port, "81");
  EXPECT_EQ(parse_base_url("http://host/").port, "80");
  EXPECT_EQ(parse_base_url("http://[::1]:81").host, "::1");
  for (const char* url : {"", "host:81", "https://host", "http://", "http://host:", "http://host:x",
                          "http://host/path"})
    EXPECT_THROW(parse_base_url(url), InputError) << url;
}

}  // namespace
}  // namespace tandem::launcher
