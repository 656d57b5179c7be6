// Steps of a decoder with weights, pages and sequences at random, for ops::decoder_step.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/decoder_ops.h"
#include "tests/kernels/cuda/attention/planned.h"

namespace tandem::testing {

struct StepCase {
  DType dtype = DType::kF32;
  int rows = 1;  // with those that fill up
  int layers = 1, heads = 1, head_dim = 16;
  int64_t d = 16, inner = 16;
  int block_size = 4;
  bool norms_behind = true, rms = false, gated = false, biases = true, position_bias = false;
  bool update = false;       // an addition to x
  int32_t longest = 40;      // keys of a sequence
  int32_t most_queries = 1;  // of a sequence
  Activation activation = Activation::kRelu;

  std::string name() const {
    return std::string(name_of(dtype)) + ", " + std::to_string(rows) + " rows, " +
           std::to_string(layers) + " layers, " + std::to_string(heads) + " heads of " +
           std::to_string(head_dim) + ", d " + std::to_string(d) + ", inner " +
           std::to_string(inner) + ", pages of " + std::to_string(block_size) +
           (norms_behind ? ", norms behind" : "") + (rms ? ", rms" : "") +
           (gated ? ", gated" : "") + (biases ? ", biases" : "") +
           (position_bias ? ", position bias" : "") + (update ? ", update" : "") + ", keys to " +
           std::to_string(longest) + ", queries to " + std::to_string(most_queries) +
           ", activation " + std::to_string(static_cast<int>(activation));
  }
};

inline StepCase some_step(Random& random, DType dtype) {
  StepCase c;
  c.dtype = dtype;
  c.rows = static_cast<int>(random.integer(1, 8));
  c.layers = static_cast<int>(random.integer(1, 3));
  c.heads = static_cast<int>(random.pick({1, 2, 3, 5}));
  c.head_dim = static_cast<int>(random.pick({16, 24, 40, 48, 64}));
  c.d = 8 * random.integer(1, 18);
  // (Of 16 bits 1032 elements are more than a stage.)
  c.inner = random.pick<int64_t>({8, 56, 120, 136, 520, 1032});
  c.block_size = static_cast<int>(random.pick({1, 2, 3, 16}));
  c.norms_behind = random.integer(0, 1) == 0;
  c.rms = random.integer(0, 1) == 0;
  c.gated = random.integer(0, 2) == 0;
  c.biases = random.integer(0, 2) > 0;
  c.position_bias = random.integer(0, 2) == 0;
  c.update = !c.norms_behind && random.integer(0, 2) == 0;
  c.longest = random.pick<int32_t>({1, 9, 77, 300});
  c.most_queries = static_cast<int32_t>(random.pick({1, 1, 2, 8}));
  c.activation = random.pick({Activation::kRelu, Activation::kGelu, Activation::kGeluTanh});
  return c;
}

// One on the context's device. Those of one seed have the same values on all.
class StepProblem {
 public:
  StepProblem(Context& ctx, Random& random, const StepCase& c) : ctx_(ctx), case_(c) {
    const int64_t width = int64_t{c.heads} * c.head_dim;
    args_.shape = {c.norms_behind, c.heads, c.head_dim, 0.3f, 0.2f, c.activation, c.gated};
    for (int i = 0; i < c.layers; ++i) layers_.push_back(layer(random, width));
    if (!c.norms_behind) args_.last_norm = norm(random);
    sequences(random);
    pages(random);
    args_.layers = layers_;
    const auto rows = [&] { return activations(random.matrix(c.rows, c.d).rows(0, case_.rows)); };
    args_.x = rows();
    if (c.update) args_.update = rows();
  }

  // Rows of tokens alone, and all pages, behind the step.
  struct Result {
    Tensor out;
    std::vector<Tensor> pages;
  };
  template <class Run>
  Result run(const Run& run) {
    std::vector<KvPages> pages;
    for (const Tensor& old : old_pages_) pages.push_back({there(old), layout_});
    ops::DecoderStepArgs args = args_;
    args.pages = pages;
    args.out = there(of_type(Tensor::zeros({case_.rows, case_.d}, DType::kF32)));
    run(ctx_, args);
    Result result{values(args.out).rows(0, tokens_), {}};
    for (const KvPages& each : pages)
      result.pages.push_back(
          values(each.data.reshape({each.data.dim(0), each.data.size() / each.data.dim(0)})));
    return result;
  }
  bool is_taken() {
    std::vector<KvPages> pages;
    for (const Tensor& old : old_pages_) pages.push_back({there(old), layout_});
    ops::DecoderStepArgs args = args_;
    args.pages = pages;
    return ops::takes_decoder_step(ctx_, args);
  }
  ops::DecoderStepArgs& args() { return args_; }

 private:
  Tensor there(const Tensor& host) {
    if (!ctx_.on_cpu()) return to_device(ctx_, host);
    const Tensor copy(host.shape(), host.dtype());
    std::memcpy(copy.raw(), host.raw(), host.bytes());
    return copy;
  }
  // f32 to the case's type, on the host.
  Tensor of_type(const Tensor& host) {
    const std::span<const float> all(host.data<float>(), static_cast<size_t>(host.size()));
    const std::vector<std::byte> bytes = to_type(all, case_.dtype);
    const Tensor out(host.shape(), case_.dtype);
    std::memcpy(out.raw(), bytes.data(), bytes.size());
    return out;
  }
  Tensor activations(const Tensor& host) { return there(of_type(host)); }
  Tensor values(const Tensor& there) {
    const Tensor here = ctx_.on_host(there);
    const std::vector<float> all =
        from_type({static_cast<const std::byte*>(here.raw()), here.bytes()}, here.dtype());
    const Tensor out(here.shape(), DType::kF32);
    std::ranges::copy(all, out.data<float>());
    return out;
  }

  ops::StepNorm norm(Random& random) {
    const Tensor weight = random.vector(case_.d);
    for (int64_t i = 0; i < weight.size(); ++i)
      weight.data<float>()[i] = 1.0f + 0.1f * weight.data<float>()[i];
    return {there(weight), case_.rms ? Tensor() : there(random.vector(case_.d)), 1e-5f, case_.rms};
  }
  ops::StepProduct product(Random& random, int64_t in, int64_t out) {
    const Tensor w =
        rounded(random.matrix(out, in, 1.0f / std::sqrt(static_cast<float>(in))), case_.dtype);
    const MatrixView view = view_of(w);
    const Tensor bias = random.matrix(1, out, 0.2f).reshape({out});
    return {PackedWeight(ctx_, {&view, 1}, case_.dtype),
            case_.biases ? ctx_.resident_bias(bias, case_.dtype) : Tensor()};
  }
  ops::DecoderLayerParts layer(Random& random, int64_t width) {
    ops::DecoderLayerParts out;
    out.self_norm = norm(random);
    out.cross_norm = norm(random);
    out.final_norm = norm(random);
    out.qkv = product(random, case_.d, 3 * width);
    out.self_out = product(random, width, case_.d);
    out.cross_q = product(random, case_.d, width);
    out.cross_out = product(random, width, case_.d);
    out.first = product(random, case_.d, case_.gated ? 2 * case_.inner : case_.inner);
    out.second = product(random, case_.inner, case_.d);
    if (case_.position_bias) out.bias = {there(random.matrix(case_.heads, 12)), 10};
    return out;
  }

  // Takes pages for so many keys.
  int32_t add_pages(int32_t keys, std::vector<int32_t>& list) {
    const auto base = static_cast<int32_t>(list.size());
    for (int32_t i = 0; i * case_.block_size < keys; ++i) list.push_back(num_pages_++);
    return base;
  }
  // Sequences of up to most_queries; neighbours may share the keys of cross-attention, as beams do.
  void sequences(Random& random) {
    std::vector<AttentionSequence> self, cross;
    std::vector<int32_t> self_pages, cross_pages, slots, self_indptr{0}, cross_indptr{0},
        self_starts{0}, cross_starts{0}, self_last, cross_last;
    const auto last_of = [&](int32_t keys) { return (keys - 1) % case_.block_size + 1; };
    tokens_ = case_.rows > 1 ? static_cast<int32_t>(random.integer(1, case_.rows)) : 1;
    for (int32_t row = 0; row < tokens_;) {
      const auto queries = static_cast<int32_t>(
          random.integer(1, std::min<int64_t>(tokens_ - row, case_.most_queries)));
      const auto keys = static_cast<int32_t>(random.integer(queries, queries + case_.longest));
      const int32_t base = add_pages(keys, self_pages);
      self.push_back({row, queries, keys, base, true});
      for (int32_t i = 0; i < queries; ++i) {
        const int32_t key = keys - queries + i;
        slots.push_back(self_pages[static_cast<size_t>(base + key / case_.block_size)] *
                            case_.block_size +
                        key % case_.block_size);
      }
      self_indptr.push_back(static_cast<int32_t>(self_pages.size()));
      self_last.push_back(last_of(keys));
      row += queries;
      self_starts.push_back(row);
      if (row < tokens_ && case_.most_queries > 1 && random.integer(0, 1) == 0) continue;
      const auto seen = static_cast<int32_t>(random.integer(1, case_.longest));
      const int32_t first = cross_starts.back(), cross_base = add_pages(seen, cross_pages);
      cross.push_back({first, row - first, seen, cross_base, false});
      cross_starts.push_back(row);
      cross_indptr.push_back(static_cast<int32_t>(cross_pages.size()));
      cross_last.push_back(last_of(seen));
    }
    slots.resize(static_cast<size_t>(case_.rows), -1);
    num_pages_ += 2;  // nobody's
    std::vector<int32_t> order(static_cast<size_t>(num_pages_));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random.engine());
    for (std::vector<int32_t>* list : {&self_pages, &cross_pages})
      for (int32_t& page : *list) page = order[static_cast<size_t>(page)];
    for (int32_t& slot : slots)
      if (slot >= 0)
        slot = order[static_cast<size_t>(slot / case_.block_size)] * case_.block_size +
               slot % case_.block_size;
    if (ctx_.on_cpu()) {
      self_starts.back() = cross_starts.back() = case_.rows = tokens_;
      slots.resize(static_cast<size_t>(tokens_));
    } else {
      planned_.emplace_back(ctx_, self, case_.heads, false);
      planned_.emplace_back(ctx_, cross, case_.heads, false);
    }
    for (size_t i = 0; i < 2; ++i) {
      const int64_t more = random.integer(0, 3);
      if (!ctx_.on_cpu()) fill_up(planned_[i], more);
    }
    args_.slot_mapping = there(indices(slots));
    const auto keys = [&](const auto& starts, const auto& indptr, const auto& list,
                          const auto& last, size_t plan) -> ops::StepKeys {
      return {there(indices(starts)), there(indices(indptr)), there(indices(list)),
              there(indices(last)), ctx_.on_cpu() ? nullptr : &planned_[plan].plan};
    };
    args_.self = keys(self_starts, self_indptr, self_pages, self_last, 0);
    args_.cross = keys(cross_starts, cross_indptr, cross_pages, cross_last, 1);
  }
  // Work without queries behind the rest, as in recorded steps.
  void fill_up(Planned& planned, int64_t more) {
    const Tensor here = ctx_.on_host(planned.plan.rows);
    const Tensor all = Tensor::zeros({here.dim(0) + more, kAttentionWorkInts}, DType::kI32);
    std::memcpy(all.raw(), here.raw(), here.bytes());
    planned.plan.rows = to_device(ctx_, all);
  }

  void pages(Random& random) {
    layout_ = random.pick({KvLayout::kNHD, KvLayout::kHND});
    const bool nhd = layout_ == KvLayout::kNHD;
    const int64_t heads = case_.heads, block = case_.block_size;
    const Shape shape{num_pages_, 2, nhd ? block : heads, nhd ? heads : block, case_.head_dim};
    for (int i = 0; i < case_.layers; ++i) {
      const Tensor all = random.matrix(1, int64_t{num_pages_} * 2 * block * heads * case_.head_dim);
      old_pages_.push_back(of_type(all).reshape(shape));
    }
  }

  Context& ctx_;
  StepCase case_;
  std::vector<ops::DecoderLayerParts> layers_;
  std::vector<Planned> planned_;
  std::vector<Tensor> old_pages_;  // on the host
  KvLayout layout_ = KvLayout::kHND;
  int32_t num_pages_ = 0, tokens_ = 0;
  ops::DecoderStepArgs args_;
};

}  // namespace tandem::testing
