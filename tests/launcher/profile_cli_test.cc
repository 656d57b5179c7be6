// --profile as its users meet it: the binary on the demo model, and the trace that it leaves.
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "launcher/profile/profile_file.h"
#include "tests/support/files/trace.h"
#include "tests/support/processes/command_line.h"
#include "tests/support/processes/server.h"

namespace tandem::profile_cli_test {
namespace {

using namespace std::chrono_literals;
using test::read_trace;
using test::TempDir;
using test::Trace;
using test::TraceSpan;
using testing::ProcessResult;
using testing::tandem;

const std::string kProfiledModel = (test::test_root() / "examples/demo-model").string();

std::string texts(int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += "The council met on Tuesday and said that the bridge will be closed for repairs until " +
           std::to_string(i) + " May, because cracks were found in two of its pillars.\n";
  return out;
}

ProcessResult generate(const std::filesystem::path& file, std::vector<std::string> more) {
  more.insert(more.begin(), {"generate", "--lines", "--model", kProfiledModel, "--kv-cache-memory",
                             "16MiB", "--max-new-tokens", "12", "--profile", file.string(), "-"});
  return tandem(more, texts(8));
}

// Time of the spans of a category, within those of "step".
double share_in_steps(const std::vector<TraceSpan>& spans, const std::vector<TraceSpan>& steps,
                      const std::string& category) {
  int64_t within = 0, all = 0;
  for (const TraceSpan& step : steps) {
    if (step.category != "step") continue;
    all += step.end - step.begin;
    for (const TraceSpan& s : spans)
      if (s.category == category)
        within += std::max<int64_t>(0, std::min(s.end, step.end) - std::max(s.begin, step.begin));
  }
  return all > 0 ? static_cast<double>(within) / static_cast<double>(all) : 0;
}

TEST(ProfileCli, ShowsStepsOpsAndWaiting) {
  const TempDir dir;
  const auto without =
      tandem({"generate", "--lines", "--model", kProfiledModel, "--kv-cache-memory", "16MiB",
              "--max-new-tokens", "12", "--threads", "2", "-"},
             texts(8));
  const auto worker_of = [](const Trace& trace) {
    for (const auto& [place, name] : trace.threads)
      if (name == "thread 1" && trace.spans.count(place) == 1) return trace.spans.at(place);
    return std::vector<TraceSpan>();
  };
  Trace trace;
  for (int i = 0; i < 5 && worker_of(trace).empty(); ++i) {  // a busy machine may starve a thread
    const ProcessResult r = generate(dir / "trace.json", {"--threads", "2"});
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, without.out) << "the same texts";
    EXPECT_NE(r.err.find("Profile: "), std::string::npos) << r.err;
    trace = read_trace(test::read_file(dir / "trace.json"));
  }
  EXPECT_EQ(trace.notes.at("dropped_spans"), "0");
  const auto& rank = trace.first("rank 0");
  std::set<std::string> steps, ops;
  int64_t sequences = 0, decoded = 0;
  for (const TraceSpan& s : rank) {
    if (s.category == "op") ops.insert(s.name);
    if (s.category != "step") continue;
    steps.insert(s.name);
    sequences = std::max(sequences, s.args.at("sequences").get<int64_t>());
    decoded += s.args.at("decoder_tokens").get<int64_t>();
  }
  EXPECT_EQ(steps.count("decode"), 1u);
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(),
                          [](const std::string& name) { return name.rfind("encode", 0) == 0; }));
  EXPECT_EQ(sequences, 8);
  EXPECT_GE(decoded, 8 * 8);
  for (const char* op : {"linear", "paged_attention", "ragged_attention", "layer_norm", "write_kv"})
    EXPECT_EQ(ops.count(op), 1u) << op;
  EXPECT_GT(share_in_steps(rank, rank, "op"), 0.3);
  // Both threads work and wait, and nothing else is seen of the second one.
  const std::vector<TraceSpan> worker = worker_of(trace);
  const double busy = share_in_steps(worker, rank, "pool");
  const double waiting = share_in_steps(worker, rank, "wait");
  EXPECT_GT(busy, 0);
  EXPECT_GT(waiting, 0);
  EXPECT_LT(busy + waiting, 1.0001);
  EXPECT_GT(test::count_of(rank, "wait"), 0);
  EXPECT_GT(test::count_of(trace.first("scheduler"), "engine"), 0);
  EXPECT_GT(test::count_of(trace.first("engine"), "engine"), 0);
}

TEST(ProfileCli, RecordsAsManyStepsAsAsked) {
  const TempDir dir;
  const ProcessResult r = generate(
      dir / "trace.json", {"--threads", "1", "--profile-steps", "3", "--profile-skip", "2"});
  ASSERT_EQ(r.status, 0) << r.err;
  const Trace trace = read_trace(test::read_file(dir / "trace.json"));
  EXPECT_EQ(test::count_of(trace.first("rank 0"), "step"), 3);
  for (const TraceSpan& s : trace.first("rank 0"))
    EXPECT_EQ(s.name.find("encode"), std::string::npos);
}

TEST(ProfileCli, BenchPrintsWhereTheTimeWent) {
  const TempDir dir;
  const ProcessResult r = tandem({"bench",
                                  "latency",
                                  "--model",
                                  kProfiledModel,
                                  "--kv-cache-memory",
                                  "16MiB",
                                  "--threads",
                                  "2",
                                  "--input-len",
                                  "16",
                                  "--output-len",
                                  "4",
                                  "--batch-size",
                                  "4",
                                  "--num-iters",
                                  "3",
                                  "--num-iters-warmup",
                                  "2",
                                  "--profile",
                                  dir / "trace.json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("at barriers"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("linear "), std::string::npos) << r.out;
  const Trace trace = read_trace(test::read_file(dir / "trace.json"));
  // Of three batches, none of those that warmed up.
  EXPECT_EQ(test::count_of(trace.first("rank 0"), "step"), 3 * 4);
}

TEST(ProfileCli, AFileThatCannotBeWrittenIsSaidAtOnce) {
  const TempDir dir;
  for (const std::string& file : {std::string("/no/such/folder/trace.json"), dir.path().string()}) {
    const ProcessResult r = generate(file, {});
    EXPECT_EQ(r.status, 2) << file;
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find("--profile: cannot write " + file), std::string::npos) << r.err;
  }
  EXPECT_EQ(generate(dir / "t.json", {"--profile-steps", "0"}).status, 2);
  EXPECT_EQ(tandem({"generate", "--connect", "127.0.0.1:1", "--profile", "t.json", "x"}).status, 2);
}

TEST(ProfileCli, RanksInProcessesWriteTheirOwnFiles) {
  const TempDir dir;
  const ProcessResult r = generate(dir / "trace.json", {"--threads", "1", "--tp", "2"});
  ASSERT_EQ(r.status, 0) << r.err;
  const Trace engine = read_trace(test::read_file(dir / "trace.json"));
  EXPECT_GT(test::count_of(engine.first("scheduler"), "engine"), 0);
  for (const std::string rank : {"0", "1"}) {
    const Trace trace = read_trace(test::read_file(dir / ("trace.rank" + rank + ".json")));
    const auto& spans = trace.first("rank " + rank);
    EXPECT_GT(test::count_of(spans, "step"), 8);
    EXPECT_GT(test::count_of(spans, "collective"), 8);
    EXPECT_GT(test::count_of(spans, "rank wait"), 8);
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    EXPECT_EQ(entry.path().extension(), ".json") << entry.path();
}

TEST(ProfileCli, AServerWritesItsFirstStepsWhileItGoesOn) {
  const TempDir dir;
  test::Server server({"--profile", (dir / "trace.json").string(), "--profile-steps", "5"});
  const auto ask = [&] {
    const auto options = server.client_options();
    const ProcessResult r = tandem({"generate", "--connect", options.address, "--access-file",
                                    options.access_file, "--max-new-tokens", "9", "some text"});
    EXPECT_EQ(r.status, 0) << r.err;
  };
  EXPECT_FALSE(std::filesystem::exists(dir / "trace.json"));
  ask();
  ASSERT_TRUE(test::eventually(10s, [&] { return std::filesystem::exists(dir / "trace.json"); }));
  ask();
  server.expect_clean_end();
  const Trace trace = read_trace(test::read_file(dir / "trace.json"));
  EXPECT_EQ(test::count_of(trace.first("rank 0"), "step"), 5);
}

TEST(ProfilePath, HasThePartBeforeTheExtension) {
  using launcher::profile_path;
  EXPECT_EQ(profile_path("a/trace.json", ""), "a/trace.json");
  EXPECT_EQ(profile_path("a/trace.json", "rank1"), "a/trace.rank1.json");
  EXPECT_EQ(profile_path("a.b/trace", "rank1"), "a.b/trace.rank1");
  EXPECT_EQ(launcher::rank_part(1, 1, 3), "rank3");
  EXPECT_EQ(launcher::rank_part(1, 2, 3), "replica1.rank3");
}

}  // namespace
}  // namespace tandem::profile_cli_test
