// The figures of tandem bench, its pictures, its recordings.
#include "launcher/bench/report.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "launcher/bench/audio.h"
#include "launcher/bench/load.h"
#include "launcher/bench/plot.h"
#include "tests/support/files/files.h"

namespace tandem::bench {
namespace {

BenchRequest request(double sent, double first, double last, int tokens) {
  BenchRequest r;
  r.sent = sent;
  r.first = first;
  r.last = last;
  r.output_tokens = r.events = tokens;
  for (int i = 1; i < tokens; ++i) r.gaps.push_back((last - first) / (tokens - 1));
  r.input_tokens = 10;
  return r;
}

BenchRequest failed(const std::string& failure, const std::string& message) {
  BenchRequest r;
  r.sent = 0.5;
  r.last = 0.6;
  r.failure = failure;
  r.message = message;
  return r;
}

TEST(BenchReport, PercentilesAreNumpys) {
  EXPECT_EQ(percentile({}, 50), 0);
  EXPECT_EQ(percentile({3}, 99), 3);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 90), 3.7);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 100), 4);
}

TEST(BenchReport, Summary) {
  ReportOptions options;
  options.percentiles = {50, 99.9};
  options.goodput = {{"ttft", 600}, {"tpot", 1000}};
  const auto s = summarize(
      {request(1, 1.5, 2.5, 3), request(1, 1.5, 5.5, 3), failed("429", "the queue is full")}, 2,
      options);
  EXPECT_EQ(s["completed"], 2);
  EXPECT_EQ(s["failed"], 1);
  EXPECT_EQ(s["max_concurrent_requests"], 2);
  EXPECT_DOUBLE_EQ(s["request_throughput"], 1);
  EXPECT_DOUBLE_EQ(s["request_goodput"], 0.5) << "the slow one has 2 s a token";
  EXPECT_DOUBLE_EQ(s["output_throughput"], 3);
  EXPECT_DOUBLE_EQ(s["mean_ttft_ms"], 500);
  EXPECT_DOUBLE_EQ(s["mean_tpot_ms"], 1250);
  EXPECT_DOUBLE_EQ(s["median_e2el_ms"], 3000);
  EXPECT_DOUBLE_EQ(s["std_tpot_ms"], 750);
  EXPECT_DOUBLE_EQ(s["mean_itl_ms"], 1250);
  EXPECT_TRUE(s.contains("p99.9_itl_ms"));
  const std::string table = format_table(s, options);
  EXPECT_NE(table.find("429 × 1: the queue is full"), std::string::npos) << table;
  EXPECT_NE(table.find("p99.9"), std::string::npos) << table;
  EXPECT_NE(table.find("1250.00"), std::string::npos) << table;
}

TEST(BenchReport, FailuresOfOneKindStandTogether) {
  std::vector<BenchRequest> requests(2, failed("500", "broken"));
  for (int i = 0; i < 12; ++i) requests.push_back(failed("429", "the queue is full"));
  const auto s = summarize(requests, 2, {});
  EXPECT_EQ(s["errors"].dump(), R"([{"failure":"429","count":12,"message":"the queue is full"},)"
                                R"({"failure":"500","count":2,"message":"broken"}])");
  EXPECT_FALSE(s.contains("mean_e2el_ms")) << "nothing was measured";
  EXPECT_EQ(format_table(s, {}),
            "No request succeeded.\nFailures:\n  429 × 12: the queue is full\n  500 × 2: broken\n");
  for (int i = 0; i < 100; ++i) requests.push_back(failed("400", std::to_string(i)));
  const auto many = summarize(requests, 2, {});
  EXPECT_LT(many["errors"].size(), 30u);
  EXPECT_EQ(many["errors"].back()["message"], "with other messages");
}

TEST(BenchReport, FiguresThatNoRequestHasAreLeftOut) {
  const auto s = summarize({request(0, 1, 1, 1)}, 2, {});
  EXPECT_TRUE(s.contains("mean_ttft_ms"));
  EXPECT_FALSE(s.contains("mean_tpot_ms")) << "one token has no time between tokens";
  EXPECT_FALSE(s.contains("mean_itl_ms"));
  EXPECT_EQ(format_table(s, {}).find("TPOT"), std::string::npos);
}

TEST(BenchPlot, BothFilesShowTheSame) {
  EXPECT_EQ(plot_base("a/b.html"), "a/b");
  EXPECT_EQ(plot_base("b.vl.json"), "b");
  EXPECT_EQ(plot_base("b"), "b");
  const std::vector<BenchRequest> requests{request(0, 0.1, 1, 10), request(0.5, 0.9, 2.5, 10),
                                           failed("500", "no</script>")};
  const auto spec = plot_specification(requests, "t");
  EXPECT_EQ(spec["data"]["values"].size(), 3u);
  EXPECT_EQ(spec["data"]["values"][0]["TTFT"], 100);
  EXPECT_EQ(spec["data"]["values"][1]["state"], "answered");
  EXPECT_EQ(spec["data"]["values"][2]["state"], "failed: 500");
  EXPECT_EQ(spec["vconcat"].size(), 3u);
  EXPECT_EQ(spec["vconcat"][2]["hconcat"].size(), 4u);
  EXPECT_EQ(spec["vconcat"][2]["hconcat"][3]["data"]["values"].back()["share"], 100);
  const std::string page = plot_page(spec, "<a & b>");
  EXPECT_NE(page.find("<title>&lt;a &amp; b></title>"), std::string::npos) << page;
  EXPECT_NE(page.find("no\\u003c/script>"), std::string::npos) << page;
  const size_t begin = page.find("vegaEmbed(\"#plot\", ") + 19,
               end = page.find(")</script>", begin);
  EXPECT_EQ(json_from<nlohmann::ordered_json>(page.substr(begin, end - begin)), spec);
}

TEST(BenchPlot, NothingAndALot) {
  EXPECT_EQ(plot_specification({}, "t")["data"]["values"].size(), 0u);
  EXPECT_EQ(plot_specification({failed("500", "no")}, "t")["data"]["values"].size(), 1u);
  std::vector<BenchRequest> many;
  for (int i = 0; i < 10000; ++i) many.push_back(request(i, i + 1, i + 2, 2));
  const auto spec = plot_specification(many, "t");
  EXPECT_EQ(spec["title"]["subtitle"], "4000 of 10000 requests are drawn");
  EXPECT_EQ(spec["data"]["values"].size(), 4000u);
}

TEST(BenchAudio, LengthsOfRecordings) {
  const Recording tone = make_tone(1.5, 440);
  EXPECT_EQ(tone.bytes.size(), 44u + 48000u);
  const test::TempDir dir;
  EXPECT_DOUBLE_EQ(read_recording(dir.write("a.wav", tone.bytes)).seconds, 1.5);
  std::string endless = tone.bytes;  // as a pipe's writer leaves it
  for (size_t i = 40; i < 44; ++i) endless[i] = '\xff';
  EXPECT_DOUBLE_EQ(read_recording(dir.write("c.wav", endless)).seconds, 1.5);
  // 44,100 Hz, two channels, 16 bits, 88,200 samples.
  std::string flac = "fLaC" + std::string("\x80\0\0\x22", 4) + std::string(10, '\0') +
                     std::string("\x0a\xc4\x42\xf0\0\x01\x58\x88", 8) + std::string(16, '\0');
  const Recording two = read_recording(dir.write("b.flac", flac));
  EXPECT_DOUBLE_EQ(two.seconds, 2);
  EXPECT_EQ(two.type, "audio/flac");
  dir.write("notes.txt", "not this");
  const auto all = read_recordings(dir.path());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].name, "b.flac");
  EXPECT_THROW(read_recordings(dir / "notes.txt"), InputError);
  EXPECT_THROW(read_recordings(dir / "none.wav"), InputError);
  EXPECT_THROW(read_recording(dir.write("cut.wav", tone.bytes.substr(0, 30))), InputError);
}

TEST(BenchTarget, Addresses) {
  const auto url = [](const std::string& base) {
    Target target;
    target.base_url = base;
    return url_of(target, "/v1/completions");
  };
  EXPECT_EQ(url("http://host:81"), "http://host:81/v1/completions");
  EXPECT_EQ(url("https://host/"), "https://host/v1/completions");
  EXPECT_EQ(url("http://[::1]:81"), "http://[::1]:81/v1/completions");
  EXPECT_EQ(url("https://host/v1/"), "https://host/v1/completions") << "as OpenAI's clients do";
  EXPECT_EQ(url("https://host/models/a"), "https://host/models/a/v1/completions");
  for (const char* bad : {"", "host:81", "ftp://host", "http://", "http://host:x",
                          "http://user@host", "http://host?a=b", "http://host#a"})
    EXPECT_THROW(url(bad), InputError) << bad;
}

}  // namespace
}  // namespace tandem::bench
