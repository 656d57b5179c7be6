// Transcriptions at a server whose workers are killed, and whose clients lose their connections:
// all is said as if nothing had happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/goldens/random_speech.h"
#include "tests/support/media/transcripts.h"
#include "tests/support/network/tcp_proxy.h"
#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::sound_test {
namespace {

using testing::RandomSpeech;
using testing::said;

constexpr int kSounds = 20;

// 2 to 70 seconds.
client::Request nth_sound(int i) {
  client::Request out;
  const double seconds = 2 + 68.0 * ((i * 7) % kSounds) / (kSounds - 1);
  out.prompt = client::Prompt::sound(RandomSpeech::sound(seconds, static_cast<unsigned>(i)),
                                     testing::speech_params(i));
  return out;
}

std::vector<client::RequestHandle> submit_all(client::Client& client) {
  std::vector<client::RequestHandle> out;
  for (int i = 0; i < kSounds; ++i) out.push_back(client.submit(nth_sound(i)));
  return out;
}

class SoundAtAServer : public ::testing::Test {
 protected:
  static Server server(const std::vector<std::string>& flags) {
    return Server(flags, {}, true, model().path());
  }
  static const RandomSpeech& model() {
    static const RandomSpeech model;
    return model;
  }
  // By one rank. Sums over several round otherwise, which shows in the probabilities of words.
  static const std::vector<std::string>& undisturbed_texts() {
    static const std::vector<std::string> texts = texts_of(1);
    return texts;
  }
  static std::vector<std::string> texts_of(int ranks) {
    std::vector<std::string> out;
    Server quiet =
        server({"--tp", std::to_string(ranks), "--distributed-executor-backend", "threads"});
    auto client = client::Client::connect(quiet.client_options());
    for (auto& handle : submit_all(client)) out.push_back(said(handle.get()));
    return out;
  }
  static int segments(const std::string& said) {
    return static_cast<int>(std::count(said.begin(), said.end(), '\n'));
  }
};

TEST_F(SoundAtAServer, WorkersAreKilledInTheMiddle) {
  const auto want = texts_of(2);
  for (const auto& text : want) EXPECT_GE(segments(text), 2);
  // Few at a time, so that fast machines are not done too soon.
  Server busy = server({"--tp", "2", "--max-restarts", "1000", "--max-num-seqs", "2"});
  auto client = client::Client::connect(busy.client_options());
  auto handles = submit_all(client);
  const auto all_done = [&] {
    return std::all_of(handles.begin(), handles.end(), [](const auto& h) { return h.done(); });
  };
  int kills = 0;
  for (; kills < 3; ++kills) {
    ASSERT_TRUE(handles[static_cast<size_t>(kills)].next_chunk());
    std::this_thread::sleep_for(50ms);
    ASSERT_FALSE(all_done()) << "too fast to be disturbed";
    const auto workers = busy.workers();
    ASSERT_EQ(workers.size(), 2u);
    kill(workers[static_cast<size_t>(kills % 2)], SIGKILL);
    ASSERT_TRUE(busy.logged(": up, generation", 30s, kills + 2));
  }
  ASSERT_FALSE(all_done()) << "too fast to be disturbed";
  for (size_t i = 0; i < handles.size(); ++i) EXPECT_EQ(said(handles[i].get()), want[i]) << i;
  expect_idle(client);
  busy.expect_clean_end();
}

TEST_F(SoundAtAServer, ConnectionsBreakInTheMiddle) {
  const auto& want = undisturbed_texts();
  Server busy = server({});
  TcpProxy proxy(busy.port());
  auto client = client::Client::connect(busy.client_options(proxy.port()));
  auto handles = submit_all(client);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(handles[static_cast<size_t>(3 * i)].next_chunk());
    std::this_thread::sleep_for(100ms);
    proxy.cut();
  }
  for (size_t i = 0; i < handles.size(); ++i) EXPECT_EQ(said(handles[i].get()), want[i]) << i;
  expect_idle(client);
  client.close();
  busy.expect_clean_end();
}

// By its id, from its beginning, in another client.
TEST_F(SoundAtAServer, AnotherClientTakesItOver) {
  const auto& want = undisturbed_texts();
  Server busy = server({});
  auto first = client::Client::connect(busy.client_options());
  auto second = client::Client::connect(busy.client_options());
  client::Request request = nth_sound(14);  // a long one, window after window
  request.id = "talk";
  auto handle = first.submit(request);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(handle.next_chunk());
  EXPECT_EQ(said(second.resume("talk").get()), want[14]);
}

}  // namespace
}  // namespace tandem::test::sound_test
