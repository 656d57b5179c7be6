#include "models/stage_plan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "models/family.h"

namespace tandem {
namespace {

uint64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1},
                         [](uint64_t n, int64_t d) { return n * static_cast<uint64_t>(d); });
}

struct LayerOfTensor {
  bool encoder;
  size_t layer;
};

// "model.decoder.layers.3.fc1.weight" is of the decoder's layer 3: the first part of the name that
// is a side, and the first number behind it.
std::optional<LayerOfTensor> layer_of(const std::string& name) {
  std::optional<bool> encoder;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part(name.data() + at, end - at);
    at = end + 1;
    if (!encoder) {
      if (part == "encoder" || part == "decoder") encoder = part == "encoder";
      continue;
    }
    size_t layer = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), layer);
    if (!part.empty() && error == std::errc() && rest == part.data() + part.size())
      return LayerOfTensor{*encoder, layer};
  }
  return std::nullopt;
}

// Layers that nothing was found of count as the largest of the others, or one.
void fill(std::vector<uint64_t>& sizes) {
  const uint64_t most =
      sizes.empty() ? 0 : std::max<uint64_t>(1, *std::max_element(sizes.begin(), sizes.end()));
  std::replace(sizes.begin(), sizes.end(), uint64_t{0}, most);
}

// Whether both sides look rows up in one table: but for the head's no other is stored. (A pickle
// may name it several times.)
bool has_one_table(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (config.encoder_vocab_size > 0) return false;
  std::set<const std::byte*> tables;
  for (const auto& [name, tensor] : checkpoint.tensors())
    if (tensor.shape == Shape{config.vocab_size, config.d_model} &&
        name.find("head") == std::string::npos)
      tables.insert(tensor.data);
  return tables.size() <= 1;
}

std::string layers_text(const char* side, const LayerRange& range) {
  const bool one = range.end == range.begin + 1;
  return std::string(side) + (one ? " layer " : " layers ") + std::to_string(range.begin) +
         (one ? "" : " to " + std::to_string(range.end - 1));
}

// Parameters of both sides' layers in a row, with those of the head, which a step reads as a whole.
std::vector<uint64_t> computed_by(const LayerSizes& sizes) {
  std::vector<uint64_t> computed = sizes.encoder;
  computed.insert(computed.end(), sizes.decoder.begin(), sizes.decoder.end());
  computed.back() += sizes.head;
  return computed;
}

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

struct Balance {
  uint64_t largest;             // cost of a stage; kNever: there is no such plan
  std::vector<int32_t> layers;  // of each stage
};

// The plan whose largest cost of a stage is as small as can be. encoder: the first layers' share of
// the encoder, of which no stage has more than most_of_encoder. `least` [stages left] [first
// layer], and where the first of these stages then ends.
Balance balanced(const std::vector<uint64_t>& costs, int stages,
                 std::span<const uint64_t> encoder = {}, uint64_t most_of_encoder = kNever) {
  const size_t n = costs.size(), p = static_cast<size_t>(stages);
  std::vector<std::vector<uint64_t>> least(p + 1, std::vector<uint64_t>(n + 1, kNever));
  std::vector<std::vector<size_t>> ends(p + 1, std::vector<size_t>(n + 1, n));
  least[0][n] = 0;
  for (size_t left = 1; left <= p; ++left) {
    for (size_t first = 0; first < n; ++first) {
      uint64_t own = 0, of_encoder = 0;
      for (size_t end = first + 1; end <= n; ++end) {
        own += costs[end - 1];
        if (end <= encoder.size()) of_encoder += encoder[end - 1];
        if (of_encoder > most_of_encoder) break;
        const uint64_t most = std::max(own, least[left - 1][end]);
        if (most >= least[left][first]) continue;
        least[left][first] = most;
        ends[left][first] = end;
      }
    }
  }
  Balance out{least[p][0], {}};
  if (out.largest == kNever) return out;
  for (size_t left = p, first = 0; left > 0; --left) {
    out.layers.push_back(static_cast<int32_t>(ends[left][first] - first));
    first = ends[left][first];
  }
  return out;
}

// The fastest plan for requests of known length. A step with encoders holds up the other steps, as
// no more of them are under way than stages. So an encoder's burst of P steps takes the time of all
// layers once, and of the largest stage P - 1 times; between bursts the largest decoder stage says
// how fast steps follow each other.
std::vector<int32_t> fastest(const LayerSizes& sizes, const StageOptions& options) {
  const double in = options.input_tokens, out = options.output_tokens, stages = options.stages;
  std::vector<uint64_t> decoder = computed_by(sizes);
  std::fill_n(decoder.begin(), sizes.encoder.size(), 0);
  std::set<uint64_t> bounds = {0};  // of a stage's part of the encoder
  for (size_t first = 0; first < sizes.encoder.size(); ++first) {
    uint64_t part = 0;
    for (size_t end = first; end < sizes.encoder.size(); ++end)
      bounds.insert(part += sizes.encoder[end]);
  }
  double least = std::numeric_limits<double>::infinity();
  std::vector<int32_t> layers;
  for (const uint64_t bound : bounds) {
    Balance plan = balanced(decoder, options.stages, sizes.encoder, bound);
    if (plan.largest == kNever) continue;
    const double time = in * (stages - 1) * static_cast<double>(bound) +
                        out * stages * static_cast<double>(plan.largest);
    if (time >= least) continue;
    least = time;
    layers = std::move(plan.layers);
  }
  return layers;
}

}  // namespace

uint64_t Stage::bytes_of_rank(DType dtype, int ranks) const {
  // In int4 the encoder's layers are int8, and a scale belongs to each 32 of the others.
  const uint64_t bytes = dtype == DType::kI4 ? of_encoder + (parameters - of_encoder) * 17 / 32
                                             : parameters * size_of(dtype);
  return bytes / static_cast<uint64_t>(ranks);
}

std::string Stage::text() const {
  std::string out = encodes() ? layers_text("encoder", encoder) : "";
  if (decodes()) out += (out.empty() ? "" : ", ") + layers_text("decoder", decoder);
  return out;
}

LayerSizes layer_sizes(const ModelConfig& config, const Checkpoint& checkpoint) {
  LayerSizes sizes;
  sizes.encoder.resize(static_cast<size_t>(std::max(0, config.encoder_layers)));
  sizes.decoder.resize(static_cast<size_t>(std::max(0, config.decoder_layers)));
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto layer = layer_of(name);
    if (!layer) continue;
    auto& side = layer->encoder ? sizes.encoder : sizes.decoder;
    if (layer->layer < side.size()) side[layer->layer] += elements_of(tensor.shape);
  }
  fill(sizes.encoder);
  fill(sizes.decoder);
  sizes.one_table = has_one_table(config, checkpoint);
  const auto table_of = [&](int vocabulary) {
    return static_cast<uint64_t>(vocabulary) * static_cast<uint64_t>(config.d_model);
  };
  if (limits_of(config).reads_ids())
    sizes.encoder_table =
        table_of(config.encoder_vocab_size > 0 ? config.encoder_vocab_size : config.vocab_size);
  sizes.decoder_table = sizes.head = table_of(config.vocab_size);
  return sizes;
}

std::vector<Stage> plan_stages(const LayerSizes& of_model, const StageOptions& options) {
  const int stages = options.stages;
  TANDEM_CHECK_GE(stages, 1);
  LayerSizes sizes = of_model;
  if (!options.encoder) {
    sizes.encoder.clear();
    sizes.encoder_table = 0;
    if (sizes.decoder.empty())
      throw invalid_request("--encoder-ranks", "the model has no decoder for the other ranks");
  }
  const auto encoder = static_cast<int>(sizes.encoder.size()),
             decoder = static_cast<int>(sizes.decoder.size());
  const std::string have =
      "the model has " + std::to_string(encoder) + " + " + std::to_string(decoder) + " layers" +
      (options.encoder ? "" : " without the encoder's, which --encoder-ranks has");
  if (stages > encoder + decoder || decoder == 0)
    throw invalid_request("--pipeline-parallel-size",
                          std::to_string(stages) + " stages have a layer each, and " + have);
  std::vector<int32_t> counts(options.layers.begin(), options.layers.end());
  if (!counts.empty() &&
      (std::ssize(counts) != stages || *std::min_element(counts.begin(), counts.end()) < 1 ||
       std::accumulate(counts.begin(), counts.end(), int64_t{0}) != encoder + decoder))
    throw invalid_request("--pipeline-layers", "gives each of " + std::to_string(stages) +
                                                   " stages a number of layers, and " + have);
  const std::vector<uint64_t> computed = computed_by(sizes);
  if (counts.empty())
    counts = options.input_tokens > 0 && options.output_tokens > 0
                 ? fastest(sizes, options)
                 : balanced(computed, stages).layers;
  std::vector<Stage> out;
  int first = 0;
  for (const int count : counts) {
    const int end = first + count;
    Stage& stage = out.emplace_back();
    stage.encoder = {std::min(first, encoder), std::min(end, encoder)};
    stage.decoder = {std::max(first - encoder, 0), std::max(end - encoder, 0)};
    for (int i = first; i < end; ++i) stage.computed += computed[static_cast<size_t>(i)];
    for (int i = first; i < std::min(end, encoder); ++i)
      stage.of_encoder += sizes.encoder[static_cast<size_t>(i)];
    const uint64_t encoder_table = stage.encoder.has_first() ? sizes.encoder_table : 0;
    const uint64_t decoder_table = stage.decoder.has_first() ? sizes.decoder_table : 0;
    stage.parameters = stage.computed + (sizes.one_table ? std::max(encoder_table, decoder_table)
                                                         : encoder_table + decoder_table);
    first = end;
  }
  return out;
}

Stage encoder_alone(const LayerSizes& sizes) {
  Stage stage;
  stage.encoder = {0, static_cast<int>(sizes.encoder.size())};
  stage.decoder = LayerRange::none();
  stage.of_encoder = std::accumulate(sizes.encoder.begin(), sizes.encoder.end(), uint64_t{0});
  const uint64_t cross =
      std::accumulate(sizes.decoder.begin(), sizes.decoder.end(), uint64_t{0}) / 8;
  stage.computed = stage.of_encoder + cross;
  stage.parameters = stage.computed + sizes.encoder_table;
  return stage;
}

}  // namespace tandem
