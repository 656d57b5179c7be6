// An EngineCore with sounds: what a model would say to each window is made up of its prompt, so
// that the undisturbed result of a transcription is known.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/engine/engine_core_driver.h"
#include "tests/support/media/transcripts.h"

namespace tandem::testing_support {

// Windows of a second, times in steps of 20 ms.
inline std::shared_ptr<SpeechSettings> fake_speech_settings() {
  auto out = std::make_shared<SpeechSettings>();
  out->mel.bins = 1;
  out->mel.chunk_length = 1;
  out->window_frames = 100;
  out->frames_per_position = 2;
  out->decoder_positions = 64;
  out->vocab_size = 400;
  out->decoder_start = 260;
  out->end_tokens = {2};
  out->languages = {{"<|en|>", 261}, {"<|de|>", 262}};
  out->tasks = {{"transcribe", 263}};
  out->multilingual = true;
  out->no_timestamps = 299;
  out->prev_start = 264;
  out->max_length = 64;
  return out;
}

struct FakeSound {
  int frames = 250;
  unsigned seed = 1;
  int pieces = 1;  // of that many frames
  bool condition = false;
};

inline std::shared_ptr<Transcription> fake_transcription(const FakeSound& sound,
                                                         const Tokenizer& tokenizer) {
  SpeechInput input;
  for (int p = 0; p < sound.pieces; ++p) {
    LogMel mel{1, sound.frames, sound.frames / 100.0, {}};
    for (int i = 0; i < sound.frames; ++i)
      mel.values.push_back(
          static_cast<float>(sound.seed * 1000 + static_cast<unsigned>(p * 100 + i)));
    input.pieces.push_back(
        {std::move(mel), sound.frames / 100.0, p > 0 ? 0.1 : 0, p + 1 < sound.pieces ? 0.1 : 0});
    input.seconds += sound.frames / 100.0;
  }
  proto::SpeechParams params;
  if (sound.pieces > 1) {
    params.set_chunk_length_s(1);
    params.set_return_timestamps(true);
  }
  params.set_condition_on_prev_tokens(sound.condition);
  return std::make_shared<Transcription>(fake_speech_settings(), std::move(input), params,
                                         proto::GenerationOptions(), tokenizer);
}

// What the model says.
inline std::vector<int32_t> fake_answer(const proto::Prompt& prompt,
                                        const proto::GenerationOptions& options) {
  const auto& frames = prompt.encoder().frames();
  uint64_t x = static_cast<uint64_t>(frames.values(0)) * 7919 + 17;
  for (const int32_t id : prompt.decoder().token_ids().ids())
    x = x * 31 + static_cast<uint64_t>(id);
  const auto draw = [&](uint64_t most) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int>((x >> 33) % most);
  };
  const auto& allowed = options.allowed_token_ids().ids();
  if (!allowed.empty()) return {allowed.Get(draw(static_cast<uint64_t>(allowed.size())))};
  std::vector<int32_t> out{300};
  const auto say = [&] {
    for (int i = 1 + draw(4); i > 0; --i) out.push_back(letter(static_cast<char>('a' + draw(26))));
  };
  say();
  const int cut = 10 + draw(40);
  out.push_back(300 + cut);
  if (draw(4) > 0) {  // the next window begins there
    out.push_back(300 + cut);
    say();
  }
  out.push_back(2);
  return out;
}

// One after the other, without an engine.
inline proto::RequestOutput undisturbed(const FakeSound& sound, const Tokenizer& tokenizer) {
  const auto transcription = fake_transcription(sound, tokenizer);
  while (!transcription->done())
    for (const auto& request : transcription->next()) {
      proto::RequestOutput answer;
      auto& out = *answer.add_outputs();
      const auto tokens = fake_answer(request.prompt, request.options);
      out.mutable_token_ids()->Assign(tokens.begin(), tokens.end());
      out.set_finish_reason(tokens.back() == 2 ? "stop" : "length");
      transcription->take(request.number, answer);
    }
  return testing::answer_of(*transcription, tokenizer);
}

// Without times of its own.
inline std::string essence(proto::RequestOutput output) {
  output.clear_metrics();
  output.clear_request_id();
  return output.DebugString();
}

class SpeechDriver : public EngineCoreDriver {
 public:
  using EngineCoreDriver::EngineCoreDriver;

  void to_scheduler(int replica, proto::SchedulerCommand command) override {
    if (command.has_add()) {
      const auto& add = command.add();
      running[add.request_id()] = {replica, add.seqs(0).output_token_ids_size()};
    } else {
      running.erase(command.abort_request_id());
    }
    EngineCoreDriver::to_scheduler(replica, std::move(command));
  }
  void submit_sound(ClientId client, const std::string& id, const FakeSound& sound,
                    double timeout = 0) {
    reserve(client, id, timeout);
    PreparedRequest request;
    request.transcription = fake_transcription(sound, tokenizer);
    core().prepared(id, std::move(request), now);
    core().check_integrity();
  }
  // The oldest part that waits is prepared.
  void prepare_one() {
    const proto::SubmitRequest part = std::move(to_prepare.front());
    to_prepare.erase(to_prepare.begin());
    answers[part.request_id()] = fake_answer(part.prompt(), part.options());
    PreparedRequest request = small_request(1, 30);
    if (!part.options().allowed_token_ids().ids().empty()) request.params.set_max_tokens(1);
    core().prepared(part.request_id(), std::move(request), now);
    core().check_integrity();
  }
  // Its next token.
  void advance(const std::string& id) {
    auto& [replica, tokens] = running.at(id);
    const auto& answer = answers.at(id);
    const int32_t token = answer.at(static_cast<size_t>(tokens++));
    const proto::StepOutput out = output(id, token);
    const int at = replica;
    if (tokens == static_cast<int>(answer.size())) running.erase(id);
    step(at, out);
  }
  // Everything that there is to do.
  void work(int most = 100'000) {
    for (; most > 0 && (!to_prepare.empty() || !running.empty()); --most) {
      if (!to_prepare.empty())
        prepare_one();
      else
        advance(running.begin()->first);
    }
  }

  FakeTokenizer tokenizer;
  struct Running {
    int replica, tokens;
  };
  std::map<std::string, Running> running;  // at a replica
  std::map<std::string, std::vector<int32_t>> answers;
};

// What a client makes of its chunks; segments may come again.
inline void gather(proto::RequestOutput& output, proto::RequestChunk chunk) {
  for (auto& news : *chunk.mutable_outputs()) {
    const int have = output.outputs_size() > 0 ? output.outputs(0).segments_size() : 0;
    EXPECT_LE(news.segment_offset(), have);
    if (output.outputs_size() > 0) {
      EXPECT_EQ(news.token_offset(), output.outputs(0).token_ids_size());
      EXPECT_EQ(news.text_offset(), static_cast<int64_t>(output.outputs(0).text().size()));
    }
    news.mutable_segments()->DeleteSubrange(
        0, std::min(have - news.segment_offset(), news.segments_size()));
  }
  append_chunk(output, chunk);
}

}  // namespace tandem::testing_support
