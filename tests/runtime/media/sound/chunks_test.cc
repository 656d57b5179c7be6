// Chunks of sound: how it is cut, and how their texts become one.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "models/family.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"
#include "tests/support/media/speech_settings.h"
#include "tests/support/media/transcripts.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const Tokenizer& whisper_tokenizer() {
  static const auto loaded = load_tokenizer(test::golden("whisper-tiny-rand"));
  return *loaded;
}

std::shared_ptr<SpeechSettings> whisper() {
  auto out = testing::whisper_settings();
  out->mel = {};
  out->decoder_positions = 448;
  out->languages = {{"<|en|>", 502}, {"<|de|>", 504}};
  for (int32_t id = 502; id <= 600; ++id) out->languages[whisper_tokenizer().token_bytes(id)] = id;
  return out;
}

// scripts/goldens/make_chunk_cases.py
TEST(ChunkMerger, SameAsHuggingFace) {
  const json cases = json_from<json>(
      test::read_file(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/speech/chunks.json"));
  ASSERT_GE(cases.size(), 20U);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const json& c = cases[i];
    const bool times = c["times"];
    const auto settings = whisper();
    ChunkMerger merger(*settings, whisper_tokenizer(), times, 1000);
    std::vector<proto::SpeechSegment> got;
    for (const json& chunk : c["chunks"])
      merger.add(
          {chunk["tokens"].get<Ids>(), chunk["stride"][0], chunk["stride"][1], chunk["stride"][2]},
          got);
    merger.finish(got);
    std::string text;
    for (const auto& segment : got) text += segment.text();
    EXPECT_EQ(text, c["text"].get<std::string>());
    if (!times) continue;
    ASSERT_EQ(got.size(), c["texts"].size());
    for (size_t k = 0; k < got.size(); ++k) {
      const json& want = c["texts"][k];
      EXPECT_EQ(got[k].text(), want[0].get<std::string>());
      if (!want[1].is_null()) {
        EXPECT_EQ(got[k].start(), want[1].get<double>());
      }
      EXPECT_EQ(got[k].end(), want[2].is_null() ? 1000 : want[2].get<double>());
    }
  }
}

// What is given before the end is not taken back.
TEST(ChunkMerger, TextComesPieceByPiece) {
  const auto settings = whisper();
  ChunkMerger merger(*settings, whisper_tokenizer(), false, 60);
  std::vector<proto::SpeechSegment> got;
  merger.add({{1, 2, 3, 4, 5, 6}, 10, 0, 3}, got);
  EXPECT_TRUE(got.empty());
  merger.add({{4, 5, 6, 7, 8, 9}, 10, 3, 3}, got);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(Ids(got[0].token_ids().begin(), got[0].token_ids().end()), (Ids{1, 2, 3, 4}));
  merger.add({{8, 9, 10}, 10, 3, 0}, got);
  merger.finish(got);
  Ids all;
  for (const auto& segment : got)
    all.insert(all.end(), segment.token_ids().begin(), segment.token_ids().end());
  EXPECT_EQ(all, (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

proto::SpeechParams params_of(const json& params) { return read_speech_params(params); }

TEST(SpeechInput, CutsAsHuggingFace) {
  const LogMelOptions mel;
  const auto lengths = [&](const json& params) {
    const ChunkLengths l = ChunkLengths::of(params_of(params), mel);
    return std::vector<int64_t>{l.chunk, l.left, l.right};
  };
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(lengths(json::object()), (Lengths{0, 0, 0}));
  EXPECT_EQ(lengths({{"chunk_length_s", 0}}), (Lengths{0, 0, 0}));
  EXPECT_EQ(lengths({{"chunk_length_s", 30}}), (Lengths{480000, 80000, 80000}));
  EXPECT_EQ(lengths({{"chunk_length_s", 10}, {"stride_length_s", 2}}),
            (Lengths{160000, 32000, 32000}));
  EXPECT_EQ(lengths({{"chunk_length_s", 10}, {"stride_length_s", {4, 2}}}),
            (Lengths{160000, 64000, 32000}));
  for (const json& wrong :
       {json{{"chunk_length_s", 31}}, json{{"chunk_length_s", 4.9}}, json{{"chunk_length_s", -1}},
        json{{"stride_length_s", 1}}, json{{"chunk_length_s", 10}, {"stride_length_s", 4}},
        json{{"chunk_length_s", 10}, {"stride_length_s", {1, 1, 1}}},
        json{{"chunk_length_s", 10}, {"stride_length_s", -1}}})
    EXPECT_THROW(lengths(wrong), InputError) << wrong;
}

// A sound of so many samples, and how often it is cut.
TEST(SpeechInput, ChunksShareTheirEnds) {
  const SpeechSettings settings;
  const LogMelOptions& mel = settings.mel;
  const auto params = params_of({{"chunk_length_s", 5}, {"stride_length_s", {1.25, 0.625}}});
  // The step is 50,000 samples; a last chunk with nothing of its own is none.
  for (const auto& [samples, last, count] :
       {std::tuple(100, 100, 1), std::tuple(80000, 80000, 1), std::tuple(80001, 30001, 2),
        std::tuple(130000, 80000, 2), std::tuple(130001, 30001, 3)}) {
    std::vector<float> values(static_cast<size_t>(samples));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.5f * std::sin(static_cast<float>(i * i % 1000));
    AudioFile file = AudioFile::of_bytes(testing::float_wav(values, mel.sampling_rate), "audio",
                                         mel.sampling_rate);
    const SpeechInput input = read_speech(file, settings, "audio", params);
    ASSERT_EQ(std::ssize(input.pieces), count) << samples;
    EXPECT_DOUBLE_EQ(input.seconds, samples / 16000.0);
    EXPECT_EQ(input.pieces[0].left, 0);
    EXPECT_EQ(input.pieces.back().right, 0);
    EXPECT_DOUBLE_EQ(input.pieces.back().length, last / 16000.0);
    for (size_t i = 0; i < input.pieces.size(); ++i) {
      const SpeechPiece& piece = input.pieces[i];
      if (i > 0) {
        EXPECT_EQ(piece.left, 1.25);
      }
      if (i + 1 < input.pieces.size()) {
        EXPECT_EQ(piece.right, 0.625);
      }
      EXPECT_EQ(piece.mel.frames, 3000);
      EXPECT_LT(piece.mel.values.size(), 520U * 80);  // silence is not kept
      // As the chunk alone.
      const auto begin = values.begin() + static_cast<long>(50000 * i);
      const std::vector<float> own(begin, begin + std::min<long>(80000, values.end() - begin));
      AudioFile alone = AudioFile::of_bytes(testing::float_wav(own, mel.sampling_rate), "audio",
                                            mel.sampling_rate);
      LogMel want = read_log_mel(alone, mel);
      trim(want);
      EXPECT_EQ(piece.mel.values, want.values) << samples << " " << i;
    }
  }
}

SpeechInput pieces(size_t count) {
  SpeechInput out{20.0 * static_cast<double>(count) + 10, {}};
  for (size_t i = 0; i < count; ++i)
    out.pieces.push_back({LogMel{80, 3000, 30, std::vector<float>(80)}, 30, i > 0 ? 5.0 : 0.0,
                          i + 1 < count ? 5.0 : 0.0});
  return out;
}

proto::RequestOutput said(const Ids& ids) {
  proto::RequestOutput out;
  out.add_outputs()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  return out;
}

// All at once, up to the bound; answers come in any order, texts in the sound's.
TEST(Transcription, ChunksAreUnderWayTogether) {
  constexpr size_t kCount = 50;
  Transcription t(whisper(), pieces(kCount),
                  params_of({{"language", "en"}, {"chunk_length_s", 30}}), {}, whisper_tokenizer());
  EXPECT_FALSE(t.times());
  std::vector<Transcription::Request> under_way = t.next();
  EXPECT_EQ(under_way.size(), Transcription::kMostPieces);
  EXPECT_TRUE(t.next().empty());
  std::map<int, int32_t> order;  // requests are numbered as chunks begin
  double seconds = 0;
  size_t done = 0;
  while (!under_way.empty()) {
    const size_t at = done * 7 % under_way.size();  // not the first one
    const int number = under_way[at].number;
    under_way.erase(under_way.begin() + static_cast<long>(at));
    const int32_t base = 4 * number;
    t.take(number, said({base, base + 1, base + 2, base + 3, base + 4, base + 5, 500}));
    ++done;
    EXPECT_GE(t.seconds_done(), seconds);
    seconds = t.seconds_done();
    for (auto& request : t.next()) under_way.push_back(std::move(request));
    EXPECT_LE(under_way.size(), Transcription::kMostPieces);
  }
  EXPECT_EQ(done, kCount);
  ASSERT_TRUE(t.done());
  EXPECT_DOUBLE_EQ(t.seconds_done(), t.seconds());
  const proto::RequestOutput result = testing::answer_of(t, whisper_tokenizer());
  Ids want;
  for (int32_t i = 0; i < static_cast<int32_t>(4 * kCount) + 2; ++i) want.push_back(i);
  EXPECT_EQ(Ids(result.outputs(0).token_ids().begin(), result.outputs(0).token_ids().end()), want);
  EXPECT_EQ(result.outputs(0).text(), whisper_tokenizer().decode(want, true));
  EXPECT_EQ(result.outputs(0).segments_size(), 0);
}

// Each chunk finds its own language, as HuggingFace's; the first one's is the answer's.
TEST(Transcription, ChunksFindTheirLanguages) {
  Transcription t(whisper(), pieces(3),
                  params_of({{"chunk_length_s", 30}, {"return_timestamps", true}}), {},
                  whisper_tokenizer());
  std::vector<Transcription::Request> requests = t.next();
  ASSERT_EQ(requests.size(), 3U);
  t.take(requests[1].number, said({502}));
  EXPECT_EQ(t.language(), "");
  t.take(requests[0].number, said({504}));
  t.take(requests[2].number, said({502}));
  EXPECT_EQ(t.language(), "<|de|>");
  for (const auto& request : t.next())
    t.take(request.number, said({607, 7, 607 + 1000, 607 + 1000, 8, 607 + 1500, 500}));
  EXPECT_TRUE(t.done());
  EXPECT_FALSE(t.segments().empty());
}

}  // namespace
}  // namespace tandem
