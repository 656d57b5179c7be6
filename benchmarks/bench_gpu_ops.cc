// What a step of the decoder is made of, op by op, at the shapes of a model (BART-large's unless
// said otherwise), in recordings that rotate over more weights, keys and values than caches hold;
// and what the device can do: the rate of a copy, of a large product, of empty launches.
//   bench_gpu_ops [--device 0] [--dtype bfloat16] [--batch 1,8,16,32,64,96,128] [--dependent]
//                 [--samples 15] [ceilings] [products] [attention] [others] [encoder]
// The head is there with logits, and of as many rows as ops::linear_best takes ("head, best";
// TANDEM_HEAD_BEST_ROWS says how many) without.
// encoder: the product with GELU of prompts, not recorded, as encoders are
// (TANDEM_WIDE_TILES_ROWS says who multiplies).
// One JSON object a line: the device's time of a call in microseconds (median, and what a tenth of
// the samples is below and above), bytes that it has to move, as a share of the copy's rate.
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>

#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "benchmarks/support/recorded_ops.h"
#include "kernels/attention_plan.h"
#include "kernels/ops.h"
#include "kernels/sampling_ops.h"

namespace tandem::bench {
namespace {

using nlohmann::json;

struct Options {
  int device = 0, samples = 15;
  std::string dtype = "bfloat16";
  bool dependent = false;
  std::vector<int> batches{1, 8, 16, 32, 64, 96, 128}, encoder_rows{2048, 8192, 45056};
  std::set<std::string> parts;
  int64_t width = 1024, inner = 4096, vocabulary = 50265;
  int heads = 16, source = 350, generated = 64, block_size = 16;
  double rotated_mib = 256, ceiling_mib = 2048;
  int64_t ceiling_side = 8192;
};

const std::map<std::string, DType> kTypes = {
    {"float32", DType::kF32}, {"float16", DType::kF16}, {"bfloat16", DType::kBF16}};
constexpr int kLaunches = 150;  // about those of a step

class OpTable {
 public:
  explicit OpTable(const Options& o)
      : o_(o), ops_(o.device, kTypes.at(o.dtype), o.dependent, o.samples) {
    element_ = static_cast<double>(size_of(ops_.dtype()));
    copy_rate_ = measure_copy();
  }

  void ceilings();
  void products();
  void attention();
  void others();
  void encoder();

 private:
  double measure_copy();
  void launches(RecordedOps& ops, bool dependent);
  void product(const char* name, int64_t k, int64_t n, Activation activation, bool logits);
  void pages(const char* name, int keys, bool causal);
  void norms(int64_t m);
  void selection(int64_t m);
  void best_head(const std::vector<PackedWeight>& weights, const Tensor& x, double weight_bytes);
  void say(json row, const DeviceTiming& t, double bytes, double operations = 0) const;
  int copies(double bytes) const { return RecordedOps::copies_of(bytes, o_.rotated_mib * 0x1p20); }
  double rows_bytes(int64_t rows, int64_t columns) const {
    return static_cast<double>(rows * columns) * element_;
  }

  const Options& o_;
  RecordedOps ops_;
  double element_ = 0, copy_rate_ = 0;  // bytes a second, read and written
};

void OpTable::say(json row, const DeviceTiming& t, double bytes, double operations) const {
  row["us"] = t.median * 1e6;
  row["us_low"] = t.low * 1e6;
  row["us_high"] = t.high * 1e6;
  if (bytes > 0) {
    row["gb_per_second"] = bytes / t.median / 1e9;
    row["of_copy"] = bytes / t.median / copy_rate_;
  }
  if (operations > 0) row["tflop_per_second"] = operations / t.median / 1e12;
  if (o_.dependent) row["dependent"] = true;
  std::printf("%s\n", json_text(row).c_str());
  std::fflush(stdout);
}

// --- What the device can do ----------------------------------------------------------------------

double OpTable::measure_copy() {
  const auto columns = int64_t{4096};
  const auto rows =
      std::max<int64_t>(1, static_cast<int64_t>(o_.ceiling_mib * 0x1p20 / 2 / element_) / columns);
  const Tensor from = ops_.random({rows, columns}), to = ops_.random({rows, columns});
  const DeviceTiming t = ops_.time_eager([&] { ops_.backend().copy_matrix(from, to); });
  return 2 * rows_bytes(rows, columns) / t.median;
}

void OpTable::launches(RecordedOps& ops, bool dependent) {
  const Tensor x = ops.random({8, 8}), rows = ops.uploaded({3}), out = ops.random({1, 8});
  const auto tiny = [&](int) { ops::gather_rows(ops.ctx(), {x, rows, out}); };
  json row = {{"op", "launch"}, {"what", dependent ? "recorded, dependent" : "recorded"}};
  say(row, ops.time(kLaunches, tiny), 0);
  if (dependent) return;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) tiny(i);
  const double host =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ops.backend().synchronize();
  row["what"] = "not recorded, the host's time";
  say(row, {host / kLaunches, host / kLaunches, host / kLaunches}, 0);
}

void OpTable::ceilings() {
  const json row = {
      {"op", "ceiling"}, {"what", ops_.backend().name()}, {"copy_gb_per_second", copy_rate_ / 1e9}};
  std::printf("%s\n", json_text(row).c_str());
  const int64_t side = o_.ceiling_side;
  const std::vector<std::byte> host = ops_.host_random(side * side);
  const MatrixView view{host.data(), ops_.dtype(), side, side, side};
  const PackedWeight weight(ops_.ctx(), std::span(&view, 1), ops_.dtype());
  const Tensor x = ops_.random({side, side}), out = ops_.random({side, side});
  const DeviceTiming t = ops_.time_eager([&] {
    ops::linear(ops_.ctx(), {&weight, x, {}, Activation::kNone, out});
  });
  const auto n = static_cast<double>(side);
  say({{"op", "ceiling"}, {"what", "product"}, {"m", side}}, t, 0, 2 * n * n * n);
  launches(ops_, o_.dependent);
  if (o_.dependent) return;
  RecordedOps overlapping(o_.device, ops_.dtype(), /*dependent=*/true, o_.samples);
  launches(overlapping, true);
}

// --- Products ------------------------------------------------------------------------------------

void OpTable::product(const char* name, int64_t k, int64_t n, Activation activation, bool logits) {
  const std::vector<std::byte> host = ops_.host_random(k * n);
  const MatrixView view{host.data(), ops_.dtype(), n, k, k};
  const double weight_bytes = rows_bytes(n, k);
  std::vector<PackedWeight> weights;
  for (int i = 0; i < copies(weight_bytes); ++i)
    weights.emplace_back(ops_.ctx(), std::span(&view, 1), ops_.dtype());
  const Tensor bias = logits ? Tensor() : ops_.random({n});
  for (const int m : o_.batches) {
    const Tensor x = ops_.random({m, k});
    // Rows of logits are aligned, as a model's are.
    const int64_t pitch = (n + 7) / 8 * 8;
    const Tensor out = logits ? ops_.backend().allocate({m, pitch}, DType::kF32).columns(0, n)
                              : ops_.random({m, n});
    const DeviceTiming t = ops_.time(static_cast<int>(weights.size()), [&](int i) {
      ops::linear(ops_.ctx(), {&weights[static_cast<size_t>(i)], x, bias, activation, out});
    });
    const double bytes = weight_bytes + rows_bytes(m, k) +
                         static_cast<double>(m * n) * (logits ? sizeof(float) : element_);
    say({{"op", "product"}, {"what", name}, {"m", m}, {"k", k}, {"n", n}}, t, bytes,
        2.0 * static_cast<double>(m * n * k));
    if (logits && m <= ops_.backend().most_best_rows(weights[0]))
      best_head(weights, x, weight_bytes);
  }
}

// The head of greedy rows, with the choice in it.
void OpTable::best_head(const std::vector<PackedWeight>& weights, const Tensor& x,
                        double weight_bytes) {
  const int64_t m = x.dim(0);
  std::vector<int32_t> all(static_cast<size_t>(m));
  std::iota(all.begin(), all.end(), 0);
  const Tensor rows = ops_.uploaded(all), sums = ops_.filled({m}, 0),
               values = ops_.filled({m, 1}, 0);
  const Tensor ids = ops_.uploaded(all).reshape({m, 1});
  const DeviceTiming t = ops_.time(static_cast<int>(weights.size()), [&](int i) {
    ops::linear_best(ops_.ctx(),
                     {&weights[static_cast<size_t>(i)], x, rows, {}, sums, ids, values});
  });
  say({{"op", "product"}, {"what", "head, best"}, {"m", m}}, t,
      weight_bytes + rows_bytes(m, x.dim(1)),
      2.0 * static_cast<double>(m) * weight_bytes / element_);
}

void OpTable::products() {
  product("qkv", o_.width, 3 * o_.width, Activation::kNone, false);
  product("out", o_.width, o_.width, Activation::kNone, false);
  product("fc1", o_.width, o_.inner, Activation::kGelu, false);
  product("fc2", o_.inner, o_.width, Activation::kNone, false);
  product("head", o_.width, o_.vocabulary, Activation::kNone, true);
}

void OpTable::encoder() {
  const int64_t k = o_.width, n = o_.inner;
  const std::vector<std::byte> host = ops_.host_random(k * n);
  const MatrixView view{host.data(), ops_.dtype(), n, k, k};
  const PackedWeight weight(ops_.ctx(), std::span(&view, 1), ops_.dtype());
  const Tensor bias = ops_.random({n});
  for (const int m : o_.encoder_rows) {
    const Tensor x = ops_.random({m, k}), out = ops_.random({m, n});
    const DeviceTiming t = ops_.time_eager([&] {
      ops::linear(ops_.ctx(), {&weight, x, bias, Activation::kGelu, out});
    });
    say({{"op", "encoder product"}, {"what", "fc1"}, {"m", m}, {"k", k}, {"n", n}}, t,
        rows_bytes(n, k) + rows_bytes(m, k) + rows_bytes(m, n),
        2.0 * static_cast<double>(m * n * k));
  }
}

// --- Attention -----------------------------------------------------------------------------------

ops::DeviceAttentionPlan planned(RecordedOps& ops, const AttentionPlan& plan, int heads) {
  ops::DeviceAttentionPlan out;
  const auto* ints = reinterpret_cast<const int32_t*>(plan.rows.data());
  const std::vector<int32_t> rows(ints, ints + plan.rows.size() * kAttentionWorkInts);
  out.rows = ops.uploaded(rows).reshape({std::ssize(plan.rows), kAttentionWorkInts});
  out.tickets =
      ops.uploaded(std::vector<int32_t>(static_cast<size_t>(plan.tickets * heads + 1), 0));
  out.partials = plan.partials;
  out.row_queries = plan.row_queries;
  return out;
}

void OpTable::pages(const char* name, int keys, bool causal) {
  const int head_dim = static_cast<int>(o_.width) / o_.heads;
  const int each = (keys + o_.block_size - 1) / o_.block_size;
  const int most = *std::max_element(o_.batches.begin(), o_.batches.end());
  const double of_key = 2 * rows_bytes(1, o_.width);
  // Twelve layers' at the largest batch: small batches find nothing of theirs in the caches either.
  std::vector<KvPages> layers;
  for (int i = 0; i < 12; ++i)
    layers.push_back({ops_.random({int64_t{most} * each, 2, o_.heads, o_.block_size, head_dim})});
  std::vector<int32_t> table(static_cast<size_t>(most) * static_cast<size_t>(each));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  const Tensor indices = ops_.uploaded(table);
  for (const int m : o_.batches) {
    std::vector<AttentionSequence> sequences;
    for (int i = 0; i < m; ++i) sequences.push_back({i, 1, keys, i * each, causal});
    const auto plan = planned(ops_, plan_attention(sequences, false), o_.heads);
    ops::PagedAttentionArgs args{};
    args.q = ops_.random({m, o_.width});
    args.kv_page_indices = indices;
    args.num_heads = o_.heads;
    args.head_dim = head_dim;
    args.scale = 0.125f;
    args.causal = causal;
    args.out = ops_.random({m, o_.width});
    args.plan = &plan;
    const DeviceTiming t = ops_.time(static_cast<int>(layers.size()), [&](int i) {
      args.pages = layers[static_cast<size_t>(i)];
      ops::paged_attention(ops_.ctx(), args);
    });
    say({{"op", "attention"}, {"what", name}, {"m", m}, {"keys", keys}}, t,
        m * (keys * of_key + of_key));
    if (!causal) continue;
    std::vector<int32_t> slots;  // the last key of each
    for (int i = 0; i < m; ++i)
      slots.push_back(table[static_cast<size_t>(i * each + (keys - 1) / o_.block_size)] *
                          o_.block_size +
                      (keys - 1) % o_.block_size);
    const Tensor slot_mapping = ops_.uploaded(slots), kv = ops_.random({m, 2 * o_.width});
    const DeviceTiming written = ops_.time(static_cast<int>(layers.size()), [&](int i) {
      ops::write_kv(ops_.ctx(), {kv.columns(0, o_.width), kv.columns(o_.width, 2 * o_.width),
                                 slot_mapping, layers[static_cast<size_t>(i)]});
    });
    say({{"op", "write_kv"}, {"what", "one key each"}, {"m", m}}, written, 2 * m * of_key);
  }
}

void OpTable::attention() {
  pages("self", o_.generated, true);
  pages("cross", o_.source, false);
}

// --- What lies between ---------------------------------------------------------------------------

void OpTable::norms(int64_t m) {
  const Tensor x = ops_.random({m, o_.width}), residual = ops_.random({m, o_.width}),
               out = ops_.random({m, o_.width});
  const Tensor weight = ops_.filled({o_.width}, 1), bias = ops_.filled({o_.width}, 0);
  const DeviceTiming t = ops_.time(36, [&](int) {
    ops::layer_norm(ops_.ctx(), {x, residual, weight, bias, 1e-5f, out});
  });
  say({{"op", "norm"}, {"what", "residual + norm"}, {"m", m}}, t, 3 * rows_bytes(m, o_.width));
}

void OpTable::selection(int64_t m) {
  const int64_t v = o_.vocabulary, pitch = (v + 7) / 8 * 8;
  const double bytes = static_cast<double>(m * v) * sizeof(float);
  std::vector<Tensor> logits;
  for (int i = 0; i < std::min(copies(bytes), 12); ++i) {
    logits.push_back(ops_.backend().allocate({m, pitch}, DType::kF32));
    ops_.backend().load(logits.back(), ops_.ctx().pool(),
                        [&](size_t begin, size_t n, std::byte* to) {
                          for (size_t at = 0; at < n;
                               at += sizeof(float)) {  // numbers that differ, none of them NaN
                            const auto f = static_cast<float>((begin + at) * 2654435761u % 65521u);
                            std::memcpy(to + at, &f, std::min(sizeof(f), n - at));
                          }
                        });
  }
  const Tensor flags = ops_.uploaded(std::vector<int32_t>(static_cast<size_t>(m), 0));
  const Tensor indptr = ops_.uploaded(std::vector<int32_t>(static_cast<size_t>(m + 1), 0));
  const Tensor edits = ops_.uploaded(std::vector<int32_t>(3, 0)).reshape({1, 3}).rows(0, 0);
  const Tensor sums = ops_.filled({m}, 0), values = ops_.filled({m, 1}, 0),
               edited = ops_.filled({1}, 0);
  const Tensor ids = ops_.uploaded(std::vector<int32_t>(static_cast<size_t>(m), 0)).reshape({m, 1});
  const DeviceTiming t = ops_.time(static_cast<int>(logits.size()), [&](int i) {
    ops::SelectArgs args{};
    args.logits = logits[static_cast<size_t>(i)].columns(0, v);
    args.flags = flags;
    args.edit_indptr = indptr;
    args.edits = edits;
    args.k = 1;
    args.log_sums = sums;
    args.edited = edited.rows(0, 0);
    args.ids = ids;
    args.values = values;
    ops::select(ops_.ctx(), args);
  });
  say({{"op", "select"}, {"what", "greedy"}, {"m", m}}, t, bytes);
}

void OpTable::others() {
  for (const int m : o_.batches) {
    norms(m);
    selection(m);
  }
}

int run(const Options& o) {
  OpTable table(o);
  const auto wants = [&](const char* part) { return o.parts.empty() || o.parts.contains(part); };
  if (wants("ceilings")) table.ceilings();
  if (wants("products")) table.products();
  if (wants("attention")) table.attention();
  if (wants("others")) table.others();
  if (wants("encoder")) table.encoder();
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  tandem::bench::Options o;
  tandem::bench::CommandLine app(
      "Times the ops of a decoder's step, one by one, and what the device can do.");
  std::vector<std::string> parts;
  app.add("parts", parts, "ceilings, products, attention, others, encoder; all when none is named")
      .one_of({"ceilings", "products", "attention", "others", "encoder"});
  app.add("--device", o.device, "number of the GPU");
  app.add("--dtype", o.dtype, "of activations and weights")
      .one_of({"float32", "float16", "bfloat16"});
  app.add("--batch", o.batches, "rows").list().range(1, 4096);
  app.add("--encoder-rows", o.encoder_rows, "tokens of prompts").list().range(1, 1 << 20);
  app.add("--samples", o.samples, "of each time").range(1, 1000);
  app.add("--width", o.width, "of a layer").range(16, 1 << 16);
  app.add("--inner", o.inner, "of a feed-forward network").range(16, 1 << 18);
  app.add("--heads", o.heads, "of attention").range(1, 1024);
  app.add("--vocabulary", o.vocabulary, "rows of the head").range(2, 1 << 20);
  app.add("--source", o.source, "keys of cross-attention").range(1, 1 << 16);
  app.add("--generated", o.generated, "keys of self-attention").range(1, 1 << 16);
  app.add("--rotated-mib", o.rotated_mib, "of weights between two uses of one");
  app.add("--ceiling-mib", o.ceiling_mib, "that the copy reads and writes");
  app.add("--ceiling-side", o.ceiling_side, "of the large product's matrices");
  app.flag("--dependent", o.dependent, "with dependent launches");
  if (const auto status = app.parse(argc, argv)) return *status;
  o.parts.insert(parts.begin(), parts.end());
  try {
    return tandem::bench::run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_gpu_ops: %s\n", e.what());
    return 1;
  }
}
