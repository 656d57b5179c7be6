// A family whose encoder reads frames, two to a position, and is otherwise BART: a checkpoint of
// bart-tiny with another name. A frame adds to its position: the sum of value k times row k of the
// token table. So a frame with a single 1 is the token of that id, and BART gives the result.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "models/blocks/seq2seq.h"
#include "models/family.h"
#include "runtime/protocol/tandem.pb.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::testing {

inline constexpr int kFrameWidth = 96, kFramesPerPosition = 2;

class FramesModel final : public Seq2Seq {
 public:
  FramesModel(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
              const Weights& decoder, const HostTensor& tokens)
      : Seq2Seq(c, b, std::move(parts), encoder, encoder_side(c, NormPlace::kPost), decoder,
                decoder_side(c, NormPlace::kPost)),
        build_(b),
        projection_(to_float(tokens).reshape({c.vocab_size, c.d_model})),
        positions_(Positions::learned(encoder, b, c.max_position_embeddings, c.d_model, 2)),
        norm_(encoder / "layernorm_embedding", b, c.d_model) {}

 protected:
  Tensor embed_source(const StepTensors& in) override {
    const int64_t width = projection_.dim(1);
    const Tensor rows = build_.ctx.make({in.encoder_positions.size(), width});
    const auto *frames = in.frame_start_loc.data<int32_t>(),
               *starts = in.encoder_start_loc.data<int32_t>();
    for (int64_t e = 0; e + 1 < in.encoder_start_loc.size(); ++e)
      for (int32_t p = 0; p < starts[e + 1] - starts[e]; ++p) {
        float* row = rows.row<float>(starts[e] + p);
        const float* position = positions_.table().row<float>(p + positions_.offset());
        std::copy(position, position + width, row);
        const int32_t first = frames[e] + kFramesPerPosition * p;
        for (int32_t f = first; f < std::min(first + kFramesPerPosition, frames[e + 1]); ++f)
          for (int k = 0; k < kFrameWidth; ++k)
            for (int64_t d = 0; d < width; ++d)
              row[d] += in.encoder_frames.row<float>(f)[k] * projection_.row<float>(k)[d];
      }
    return norm_.forward(rows);
  }

 private:
  Build build_;
  Tensor projection_;
  Positions positions_;
  Norm norm_;
};

inline std::unique_ptr<Model> make_frames_model(const ModelConfig& c, const Weights& root,
                                                const Build& b) {
  const Weights model = root / "model", encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  Seq2Seq::Parts parts{
      {},
      [&] {
        return Embeddings(VocabParallelEmbedding(tables.decoder, b, 1),
                          Positions::learned(decoder, b, c.max_position_embeddings, c.d_model, 2),
                          Norm(decoder / "layernorm_embedding", b, c.d_model));
      },
      [&] { return ParallelLMHead(tables.head, final_logits_bias(root, c), b); }};
  return std::make_unique<FramesModel>(c, b, std::move(parts), encoder, decoder, tables.encoder);
}

inline ModelLimits frames_limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  out.frames = FrameLimits{
      kFrameWidth, [](int64_t n) { return (n + kFramesPerPosition - 1) / kFramesPerPosition; }};
  return out;
}

// The checkpoint; goes away with the object.
class FramesCheckpoint {
 public:
  FramesCheckpoint() {
    register_family({.model_type = "frames_test",
                     .architectures = {"FramesTestModel"},
                     .encoder_input = EncoderInput::kFrames,
                     .read_config =
                         [](const ConfigReader& in, ModelConfig& out) {
                           read_encoder_decoder(in, {.activation = "gelu"}, out);
                         },
                     .limits = frames_limits,
                     .decoder_prompt = start_and_bos_prompt,
                     .make = make_frames_model});
    for (const auto& file : std::filesystem::directory_iterator(golden_dir("bart-tiny")))
      if (file.path().filename() != "config.json")
        std::filesystem::create_symlink(std::filesystem::absolute(file.path()),
                                        dir_ / file.path().filename().string());
    nlohmann::json config = load_json(golden_dir("bart-tiny") / "config.json");
    config["model_type"] = "frames_test";
    config["architectures"] = {"FramesTestModel"};
    dir_.write("config.json", config.dump());
  }
  const std::filesystem::path& path() const { return dir_.path(); }

 private:
  test::TempDir dir_;
};

// Frames that are those ids, an empty one behind each; the last empty one may be left out.
inline proto::EncoderFrames frames_of_ids(const std::vector<int>& ids, bool leave_out_last) {
  proto::EncoderFrames out;
  out.set_width(kFrameWidth);
  out.set_num_frames(static_cast<int32_t>(2 * ids.size()) - (leave_out_last ? 1 : 0));
  out.mutable_values()->Resize(out.num_frames() * kFrameWidth, 0);
  for (size_t i = 0; i < ids.size(); ++i)
    out.set_values(static_cast<int>(2 * i) * kFrameWidth + ids[i], 1);
  return out;
}

inline proto::Prompt prompt_of(proto::EncoderFrames frames) {
  proto::Prompt out;
  out.mutable_encoder()->set_field("prompt.encoder_prompt");
  *out.mutable_encoder()->mutable_frames() = std::move(frames);
  return out;
}

}  // namespace tandem::testing
