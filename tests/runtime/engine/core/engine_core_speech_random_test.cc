// Transcriptions in an EngineCore that lives through everything at random: those that end are the
// undisturbed ones, and of the others nothing is left.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/engine/speech_driver.h"

namespace tandem::engine_core_speech_random_test {
namespace {

using namespace testing_support;

class SpeechLife : public SpeechDriver {
 public:
  explicit SpeechLife(unsigned seed) : SpeechDriver(config()), random_(seed) {
    for (ClientId client = 0; client < 3; ++client) connect(client);
    up(0), up(1);
  }

  void run() {
    for (int i = 0; i < 400; ++i) event();
    for (int r = 0; r < 2; ++r)
      if (!ups_[r]) up(r), ups_[r] = true;
    for (int i = 0; i < 30; ++i) {
      work();
      hear_all();
    }
    tick(100);
    hear_all();
    EXPECT_EQ(core().num_requests(), 0u);
    EXPECT_TRUE(core().idle());
    EXPECT_TRUE(core().takes_sound());
    EXPECT_TRUE(to_prepare.empty() && running.empty());
    for (const auto& [id, request] : requests_) check(id, request);
  }
  static int completed, cancelled, resumed;

 private:
  struct Heard {
    ClientId client = 0;
    FakeSound sound;
    bool over = false;  // cancelled, late or lost
    proto::RequestOutput output;
  };
  static EngineCoreConfig config() {
    EngineCoreConfig out;
    out.num_replicas = 2;
    return out;
  }
  unsigned draw(unsigned most) { return static_cast<unsigned>(random_() % most); }
  void connect(ClientId client) {
    core().client_connected(client, client == 0 ? ClientKind::kDirect : ClientKind::kRemote);
    connected_.push_back(client);
  }

  void event() {
    const unsigned kind = draw(100);
    if (kind < 8) return begin();
    if (kind < 30 && !to_prepare.empty()) return prepare_one();
    if (kind < 84 && !running.empty()) {
      auto it = running.begin();
      std::advance(it, draw(static_cast<unsigned>(running.size())));
      return advance(it->first);
    }
    if (kind < 86) return replica();
    if (kind < 88) return cancel_one();
    if (kind < 90) return reconnect();
    if (kind < 93) tick(0.05 * draw(20));
    hear_all();
  }
  void begin() {
    const std::string id = "r" + std::to_string(requests_.size());
    Heard& request = requests_[id];
    request.client = connected_[draw(static_cast<unsigned>(connected_.size()))];
    request.sound = {draw(4) > 0 ? 30 + static_cast<int>(draw(500)) : 100, draw(1000),
                     draw(4) > 0 ? 1 : 1 + static_cast<int>(draw(5)), draw(2) == 0};
    if (request.sound.pieces > 1) request.sound.frames = 100;
    submit_sound(request.client, id, request.sound, draw(6) == 0 ? 0.5 + draw(5) : 0);
  }
  void replica() {
    const int r = static_cast<int>(draw(2));
    if (!ups_[r]) return up(r), void(ups_[r] = true);
    for (auto it = running.begin(); it != running.end();)
      it = it->second.replica == r ? running.erase(it) : std::next(it);
    ups_[r] = false;
    down(r, /*crashed=*/false);
  }
  void cancel_one() {
    if (requests_.empty()) return;
    auto it = requests_.begin();
    std::advance(it, draw(static_cast<unsigned>(requests_.size())));
    if (it->second.output.finished() || it->second.over) return;
    hear_all();
    if (it->second.output.finished()) return;
    it->second.over = true;
    ++cancelled;
    core().cancel(it->first, now);
    core().check_integrity();
  }
  // A remote client comes back as another, with what it has.
  void reconnect() {
    const size_t which = 1 + draw(2);
    const ClientId old = connected_[which], fresh = next_client_++;
    core().client_gone(old, now);
    core().check_integrity();
    chunks(old);  // lost
    connected_[which] = fresh;
    core().client_connected(fresh);
    for (auto& [id, request] : requests_) {
      if (request.client != old) continue;
      request.client = fresh;
      if (request.over || request.output.finished()) continue;
      const bool any = request.output.outputs_size() > 0;
      try {
        resume(fresh, id, any ? request.output.outputs(0).token_ids_size() : 0,
               any ? static_cast<int>(request.output.outputs(0).text().size()) : 0);
        ++resumed;
      } catch (const InputError&) {
        ADD_FAILURE() << id << " is not known any more";
      }
    }
  }
  void hear_all() {
    for (const ClientId client : connected_) {
      for (auto& chunk : chunks(client)) {
        Heard& request = requests_.at(chunk.request_id());
        if (request.over) continue;
        if (chunk.has_error()) {
          EXPECT_EQ(chunk.error().type(), "timeout_error");
          request.over = true;
        } else {
          gather(request.output, chunk);
        }
      }
      if (client != 0) acknowledge(client);
    }
  }
  void check(const std::string& id, const Heard& request) {
    SCOPED_TRACE(id);
    const auto want = undisturbed(request.sound, tokenizer);
    if (request.output.finished()) {
      ++completed;
      EXPECT_EQ(essence(request.output), essence(want));
    } else {
      EXPECT_TRUE(request.over);
      if (request.output.outputs_size() > 0) {
        EXPECT_TRUE(want.outputs(0).text().starts_with(request.output.outputs(0).text()));
      }
    }
  }

  std::mt19937 random_;
  std::map<std::string, Heard> requests_;
  std::vector<ClientId> connected_;
  ClientId next_client_ = 10;
  bool ups_[2] = {true, true};
};
int SpeechLife::completed = 0;
int SpeechLife::cancelled = 0;
int SpeechLife::resumed = 0;

TEST(SpeechLives, EveryStreamIsWhole) {
  for (unsigned seed = 1; seed <= 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SpeechLife(seed).run();
  }
  EXPECT_GE(SpeechLife::completed, 1000);
  EXPECT_GE(SpeechLife::cancelled, 100);
  EXPECT_GE(SpeechLife::resumed, 100);
}

}  // namespace
}  // namespace tandem::engine_core_speech_random_test
