// Florence-2 (Xiao et al. 2023; HuggingFace Florence2ForConditionalGeneration): BART, whose encoder
// reads vectors of an image before the text. They are the points of a picture encoder's last stage,
// behind their mean. Tasks such as <OCR> become sentences.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "models/blocks/fairseq_model.h"
#include "models/blocks/pictures/image_rows.h"
#include "models/config/side_config.h"
#include "models/config/vision_config.h"
#include "models/family.h"
#include "models/sides/channel_encoder.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace florence2 {

constexpr int kImageSide = 768;     // HuggingFace's, where no file says it
constexpr int kPositionOffset = 2;  // BART's
constexpr const char* kModel = "model.language_model";

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50265);

// Keys of config.json that ModelConfig does not have.
struct Extras {
  ChannelEncoderConfig vision;
  int image_id = 0;
  int places = 0;  // rows and columns of points that have an embedding
  int frames = 0;  // of a film, likewise; an image is the first one
  const ChannelEncoderConfig::Stage& last() const { return vision.stages.back(); }
  int64_t image_positions() const { return 1 + last().points(); }
};

Extras read_extras(const ModelConfig& c) {
  const ConfigReader in = c.reader(), vision = part_or_empty(in, "vision_config");
  const ImageSize size = processed_size(c, {kImageSide, kImageSide});
  Extras out;
  out.vision = read_channel_encoder(vision, size.height, size.width);
  out.image_id = size_or(in, "image_token_id", in.kMaxRows, 51289);
  out.places = size_or(vision, "max_position_embeddings", in.kMaxRows, 50);
  out.frames = size_or(vision, "max_temporal_embeddings", in.kMaxRows, 100);
  if (size_or(vision, "in_channels", in.kMaxCount, 3) != ImagePatches::kChannels)
    vision.fail("in_channels", "is not 3, which is all that is read");
  if (size_or(vision, "projection_dim", in.kMaxWidth, 1024) != c.d_model)
    vision.fail("projection_dim", "is not the width of text_config, " + std::to_string(c.d_model));
  const ConvSteps& last = out.last().steps;
  if (std::max(last.rows(), last.columns()) > out.places)
    vision.fail("max_position_embeddings", "is " + std::to_string(out.places) +
                                               ", but an image of " + std::to_string(size.width) +
                                               " x " + std::to_string(size.height) +
                                               " pixels has more");
  return out;
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  const ConfigReader text = part_or_empty(in, "text_config");
  if (text.find("model_type") != nullptr && text.string("model_type") != "bart")
    text.fail("model_type", "is not bart, which is all that is supported");
  read_encoder_decoder(text, kDefaults, c);
  c.tie_word_embeddings = in.flag("tie_word_embeddings", true);
}

ModelLimits limits(const ModelConfig& c) {
  const Extras extras = read_extras(c);
  ModelLimits out = encoder_decoder_limits(c);
  FrameLimits frames{ImagePatches::kChannels};
  frames.image = ImagePatches{extras.vision.height, extras.vision.width, 1, 1};
  frames.beside_ids = FramesBesideIds{extras.image_id, extras.image_positions()};
  out.frames = std::move(frames);
  out.scratch_values_per_token += extras.vision.scratch_values();
  return out;
}

// The vectors of an image.
class ImageVectors {
 public:
  ImageVectors(const Weights& w, const Build& b, const ModelConfig& c, const Extras& extras)
      : build_(b),
        encoder_(w / "vision_tower", b.of_many_rows(), extras.vision),
        points_(extras.last().points()),
        pixels_(int64_t{extras.vision.height} * extras.vision.width),
        part_(shard_range(extras.last().d_model, b.comm.rank(), b.comm.size())),
        projection_(w / kProjector / "image_projection", b, extras.last().d_model, c.d_model, part_,
                    Bias::kNone),
        norm_(w / kProjector / "image_proj_norm", b, c.d_model),
        places_(b.ctx.resident(place_table(w / kProjector, extras))) {}

  // [images * (1 + points), d_model]
  Tensor forward(const StepTensors& in) const {
    const Tensor points = encoder_.forward(in.encoder_frames, in);
    const int64_t images = in.encoder_frames.dim(0) / pixels_, count = 1 + points_;
    std::vector<int32_t> from, places, first, all;
    for (int64_t i = 0; i < images; ++i)
      for (int64_t p = 0; p < count; ++p) {
        from.push_back(p == 0 ? -1 : static_cast<int32_t>(i * points_ + p - 1));
        places.push_back(static_cast<int32_t>(p));
        const auto row = static_cast<int32_t>(i * count + p);
        (p == 0 ? first : all).push_back(row);
      }
    Context& ctx = build_.ctx;
    const int64_t width = points.dim(1);
    const Tensor placed = ctx.make({images * count, width}), means = ctx.make({images, width});
    ops::embedding(
        ctx, {step_list(ctx, from), step_list(ctx, places), points, places_, 1.0f, 0, 0, placed});
    const std::vector<float> shares(all.size(), 1.0f / static_cast<float>(points_));
    ops::combine_rows(ctx, {placed, step_list(ctx, all).reshape({images, points_}),
                            step_values(ctx, shares).reshape({images, points_}), means});
    ops::scatter_rows(ctx, {means, step_list(ctx, first), placed});
    return norm_.forward(projection_.forward(placed.columns(part_.begin, part_.end)));
  }

 private:
  static constexpr const char* kProjector = "multi_modal_projector";

  // Of a point its column's embedding, then its row's, and the first frame's of a film. Row 0, of
  // the mean, is zero.
  static Tensor place_table(const Weights& w, const Extras& e) {
    const int64_t width = e.last().d_model, of_rows = width / 2, of_columns = width - of_rows;
    const auto read = [&](const Weights& at, const char* name, int64_t count, int64_t size) {
      return to_float(at.get(name, {count, size})).reshape({count, size});
    };
    const Weights places = w / "image_position_embed";
    const Tensor rows = read(places / "row_embeddings", "weight", e.places, of_rows),
                 columns = read(places / "column_embeddings", "weight", e.places, of_columns),
                 time = read(w / "visual_temporal_embed", "pos_idx_to_embed", e.frames, width);
    const ConvSteps& steps = e.last().steps;
    const Tensor out({1 + e.last().points(), width}, DType::kF32);
    std::fill_n(out.row<float>(0), width, 0.0f);
    for (int64_t y = 0; y < steps.rows(); ++y)
      for (int64_t x = 0; x < steps.columns(); ++x) {
        float* to = out.row<float>(1 + y * steps.columns() + x);
        for (int64_t d = 0; d < width; ++d)
          to[d] = (d < of_columns ? columns.row<float>(x)[d] : rows.row<float>(y)[d - of_columns]) +
                  time.row<float>(0)[d];
      }
    return out;
  }

  Build build_;
  ChannelEncoder encoder_;
  int64_t points_, pixels_;
  Range part_;
  RowParallelLinear projection_;
  Norm norm_;
  Tensor places_;  // [1 + points, width] f32
};

// What stands before the encoder's first layer.
struct Source {
  ImageVectors images;
  int image_id;
  VocabParallelEmbedding tokens;
  Positions positions;
  Norm norm;

  Tensor forward(Context& ctx, const StepTensors& in) const {
    const Tensor x = tokens.forward(in.encoder_input_ids, in.encoder_positions, {}, 0),
                 places = ctx.make({x.dim(0), x.dim(1)});
    if (const std::vector<int32_t> rows = image_rows(ctx, in, image_id); !rows.empty())
      ops::scatter_rows(ctx, {images.forward(in), step_list(ctx, rows), x});
    ops::embedding(
        ctx,
        {in.encoder_positions, {}, positions.table(), {}, 1.0f, 0, -positions.offset(), places});
    return norm.add_norm(places, x);
  }
};

class ImageTextModel final : public Seq2Seq {
 public:
  ImageTextModel(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
                 const Weights& decoder, std::optional<Source> source)
      : Seq2Seq(c, b, std::move(parts), encoder, encoder_side(c, NormPlace::kPost), decoder,
                decoder_side(c, NormPlace::kPost)),
        ctx_(b.ctx),
        source_(std::move(source)) {}

 protected:
  Tensor embed_source(const StepTensors& in) override { return source_->forward(ctx_, in); }

 private:
  Context& ctx_;
  std::optional<Source> source_;  // of the rank with the first layer
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Extras extras = read_extras(c);
  const Weights text = root / kModel, encoder = text / "encoder", decoder = text / "decoder";
  const TokenTables tables(root, text, c);
  TokenEmbeddings tokens(tables, b, c);
  const auto positions = [&](const Weights& side) {
    return Positions::learned(side, b, c.max_position_embeddings, c.d_model, kPositionOffset);
  };
  const auto norm = [&](const Weights& side) {
    return Norm(side / "layernorm_embedding", b, c.d_model);
  };
  Seq2Seq::Parts parts{
      {},
      [&] { return Embeddings(tokens.decoder(), positions(decoder), norm(decoder)); },
      [&] { return ParallelLMHead(tables.head, final_logits_bias(root, c), b); }};
  std::optional<Source> source;
  if (b.encoder_layers.has_first())
    source.emplace(Source{ImageVectors(root / "model", b, c, extras), extras.image_id,
                          tokens.encoder(), positions(encoder), norm(encoder)});
  return std::make_unique<ImageTextModel>(c, b, std::move(parts), encoder, decoder,
                                          std::move(source));
}

struct TaskText {
  std::string_view task, before, behind = {};
  bool takes_text = true;
  LocatedForm answer = LocatedForm::kPureText;
};

// HuggingFace's processor's.
constexpr TaskText kTasks[] = {
    {"<OCR>", "What is the text in the image?", "", false},
    {"<OCR_WITH_REGION>", "What is the text in the image, with regions?", "", false,
     LocatedForm::kOcr},
    {"<CAPTION>", "What does the image describe?", "", false},
    {"<DETAILED_CAPTION>", "Describe in detail what is shown in the image.", "", false},
    {"<MORE_DETAILED_CAPTION>", "Describe with a paragraph what is shown in the image.", "", false},
    {"<OD>", "Locate the objects with category name in the image.", "", false,
     LocatedForm::kDescriptionWithBoxes},
    {"<DENSE_REGION_CAPTION>", "Locate the objects in the image, with their descriptions.", "",
     false, LocatedForm::kDescriptionWithBoxes},
    {"<REGION_PROPOSAL>", "Locate the region proposals in the image.", "", false,
     LocatedForm::kBoxes},
    {"<CAPTION_TO_PHRASE_GROUNDING>", "Locate the phrases in the caption: ", "", true,
     LocatedForm::kPhraseGrounding},
    {"<REFERRING_EXPRESSION_SEGMENTATION>", "Locate ", " in the image with mask", true,
     LocatedForm::kPolygons},
    {"<REGION_TO_SEGMENTATION>", "What is the polygon mask of region ", "", true,
     LocatedForm::kPolygons},
    {"<OPEN_VOCABULARY_DETECTION>", "Locate ", " in the image.", true,
     LocatedForm::kDescriptionWithBoxesOrPolygons},
    {"<REGION_TO_CATEGORY>", "What is the region ", "?"},
    {"<REGION_TO_DESCRIPTION>", "What does the region ", " describe?"},
    {"<REGION_TO_OCR>", "What text is in the region ", "?"}};

std::string sentence_of(const std::string& text) {
  for (const TaskText& t : kTasks) {
    if (text.find(t.task) == text.npos) continue;
    if (!t.takes_text && text != t.task)
      throw invalid_request("prompt", std::string(t.task) + " must be all of the text");
    std::string rest = text;
    for (size_t at; (at = rest.find(t.task)) != rest.npos;) rest.erase(at, t.task.size());
    return std::string(t.before) + std::string(stripped(rest)) + std::string(t.behind);
  }
  return text;
}

ImageText image_text(const std::string& text, const ImageTextContext& with) {
  ImageText out{sentence_of(text), /*add_special=*/false};
  if (!with.has_image) return out;
  const ConfigReader in = with.config.reader();
  const std::string image = with.token_of(size_or(in, "image_token_id", in.kMaxRows, 51289));
  std::string before;
  for (int64_t i = 0; i < with.image_positions; ++i) before += image;
  const auto end = with.config.eos_token_id;
  out.text = before + with.token_of(with.config.bos_token_id) + out.text +
             with.token_of(end.empty() ? -1 : end.front());
  return out;
}

// Keys of post_processor_config, as HuggingFace's class reads them.
void read_answer_settings(const ModelConfig& c, AnswerForm& form) {
  const std::filesystem::path file = c.directory / "processor_config.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return;
  const nlohmann::json whole = load_python_json(file);
  const ConfigReader in(file.string(), whole),
      settings = part_or_empty(in, "post_processor_config");
  const ConfigReader phrases = part_or_empty(settings, "phrase_grounding"),
                     ocr = part_or_empty(settings, "ocr");
  if (const nlohmann::json* banned = phrases.find("banned_grounding_tokens");
      banned != nullptr && banned->is_array())
    for (const nlohmann::json& phrase : *banned)
      if (phrase.is_string()) form.banned_phrases.push_back(phrase);
  if (const nlohmann::json* least = ocr.find("AREA_THRESHOLD");
      least != nullptr && least->is_number())
    form.area_threshold = *least;
}

AnswerForm answer_form(const ModelConfig& c, const std::string& text) {
  for (const TaskText& t : kTasks) {
    if (text.find(t.task) == text.npos) continue;
    AnswerForm form{AnswerForm::Kind::kPlaces, std::string(t.task), t.answer};
    read_answer_settings(c, form);
    return form;
  }
  return {};
}

}  // namespace florence2

ModelFamily florence2_family() {
  using namespace florence2;
  return {.model_type = "florence2",
          .architectures = {"Florence2ForConditionalGeneration"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .image_text = image_text,
          .answer_form = answer_form,
          .make = make};
}

}  // namespace tandem
