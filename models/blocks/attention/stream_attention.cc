#include "models/blocks/attention/stream_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace tandem {
namespace {

constexpr int kFarthest = 1 << 16;

// A prompt of several tokens that ends in a step.
struct WholePrompt {
  int32_t sequence, tokens;
  int32_t first_row;  // of its tokens of this step
  int32_t computed;   // tokens before those
};

std::vector<WholePrompt> whole_prompts(const AttentionMetadata& m) {
  std::vector<WholePrompt> out;
  for (int32_t i = 0; i < m.num_requests; ++i) {
    const auto at = static_cast<size_t>(i);
    const int32_t tokens = m.num_prompt_tokens[at], computed = m.num_computed_tokens[at];
    if (tokens > 1 && computed < tokens && m.seq_lens[at] >= tokens)
      out.push_back({i, tokens, m.query_start_loc[at], computed});
  }
  return out;
}

// Sequences and their pages, for the CPU and a device.
class TableWriter {
 public:
  // `pages`: of the sequence, in its table from `begin` on.
  void add(int32_t queries, int32_t keys, int32_t block_size, const PageTable& from, int32_t begin,
           bool causal) {
    const int32_t pages = (keys - 1) / block_size + 1;
    sequences_.push_back(
        {starts_.back(), queries, keys, static_cast<int32_t>(table_.page_indices.size()), causal});
    starts_.push_back(starts_.back() + queries);
    const auto first = from.page_indices.begin() + begin;
    table_.page_indices.insert(table_.page_indices.end(), first, first + pages);
    table_.indptr.push_back(static_cast<int32_t>(table_.page_indices.size()));
    table_.last_page_len.push_back(keys - (pages - 1) * block_size);
  }
  StepTensors::Streams::Table made(Context& ctx, const Heads& heads) const {
    return {step_list(ctx, starts_),
            {step_list(ctx, table_.indptr), step_list(ctx, table_.page_indices),
             step_list(ctx, table_.last_page_len)},
            plan_own(ctx, sequences_, heads.count(), heads.head_dim)};
  }

 private:
  std::vector<int32_t> starts_{0};
  PageTable table_;
  std::vector<AttentionSequence> sequences_;
};

// The entry of cross-attention that has a row.
int32_t group_of(const AttentionMetadata& m, int32_t row) {
  const auto& starts = m.cross_query_start_loc;
  return static_cast<int32_t>(std::upper_bound(starts.begin(), starts.end(), row) -
                              starts.begin()) -
         1;
}

// Of a prompt's rows, which begin at row `offset` of each stream: of which row and head (row *
// all_heads + head) each takes the biases.
void mix(const WholePrompt& prompt, int32_t offset, const StepTensors::Streams& s, int all_heads,
         const Range& heads, std::vector<int32_t>& out) {
  const int64_t first = 2 * s.tokens + offset;
  for (int64_t stream = 0; stream < s.count; ++stream)
    for (int64_t t = 0; t < prompt.tokens; ++t)
      for (int64_t head = heads.begin; head < heads.end; ++head) {
        const int64_t place = (stream * all_heads + head) * prompt.tokens + t;
        const int64_t row =
            first + place / all_heads % s.count * s.rows + place / (int64_t{all_heads} * s.count);
        const auto to = static_cast<size_t>(((stream * s.rows + offset + t) * heads.size()) + head -
                                            heads.begin);
        out[to] = static_cast<int32_t>(row * all_heads + place % all_heads);
      }
}

// The rows of the layer of biases, whose features are heads of buckets instead of buckets of heads.
class HeadsFirst final : public WeightSource {
 public:
  HeadsFirst(WeightSource& file, int heads) : file_(file), heads_(heads) {}

  // Valid until the next call.
  const HostTensor* find(const std::string& name) override {
    const HostTensor* found = file_.find(name);
    if (found == nullptr || found->shape.empty() || found->shape[0] % heads_ != 0) return found;
    turned_ = file_.in_layer_type(*found);
    const auto rows = static_cast<size_t>(turned_.shape[0]), size = turned_.bytes / rows,
               heads = static_cast<size_t>(heads_), buckets = rows / heads;
    auto bytes = std::make_shared<std::vector<std::byte>>(turned_.bytes);
    for (size_t bucket = 0; bucket < buckets; ++bucket)
      for (size_t head = 0; head < heads; ++head)
        std::memcpy(bytes->data() + (head * buckets + bucket) * size,
                    turned_.data + (bucket * heads + head) * size, size);
    turned_.data = bytes->data();
    turned_.keep_alive = std::move(bytes);
    return &turned_;
  }
  std::string location() const override { return file_.location(); }

 private:
  WeightSource& file_;
  int heads_;
  HostTensor turned_;
};

ColumnParallelLinear biases_of_all(const Weights& w, const Build& b, int64_t d_model, int heads,
                                   const StreamOptions& o) {
  static const std::unique_ptr<Communicator> alone = make_local_communicator();
  HeadsFirst turned(w.source(), heads);
  return ColumnParallelLinear(Weights(turned, w.scope()) / o.biases,
                              Build{b.ctx, *alone, b.dtype, b.quantization}, d_model,
                              int64_t{heads} * o.num_buckets);
}

Tensor resident_list(Context& ctx, const std::vector<int32_t>& list) {
  const Tensor out({std::ssize(list)}, DType::kI32);
  std::copy(list.begin(), list.end(), out.data<int32_t>());
  return ctx.resident(out);
}

}  // namespace

std::vector<int32_t> stream_buckets(const StreamOptions& o) {
  const int exact = o.num_buckets / 2;
  if (exact < 1 || o.num_buckets > kFarthest)
    throw invalid_model("num_buckets", std::to_string(o.num_buckets) + " buckets cannot be");
  if (o.max_distance <= exact || o.max_distance > kFarthest)
    throw invalid_model("relative_max_distance", std::to_string(o.max_distance) + " is not above " +
                                                     std::to_string(exact) +
                                                     ", the distances of a bucket each");
  const auto whole = static_cast<float>(std::log(static_cast<double>(o.max_distance) / exact)),
             first = static_cast<float>(exact), last = static_cast<float>(o.num_buckets - 1);
  std::vector<int32_t> out;
  for (int32_t distance = 0; distance <= o.max_distance; ++distance) {
    const float ratio = std::log(static_cast<float>(distance) / first);
    const float large = first + ratio / whole * static_cast<float>(o.num_buckets - exact);
    out.push_back(distance < exact ? distance : static_cast<int32_t>(std::min(large, last)));
  }
  return out;
}

bool has_whole_prompts(const AttentionMetadata& step) { return !whole_prompts(step).empty(); }

StepTensors::Streams streams_of(Context& ctx, const StepTensors& in, int block_size,
                                const StreamOptions& options, const Heads& heads, int all_heads) {
  const AttentionMetadata& m = *in.host;
  StepTensors::Streams out;
  out.tokens = in.positions.dim(0);
  const std::vector<WholePrompt> prompts = whole_prompts(m);
  if (prompts.empty()) return out;
  out.count = options.ngram;
  TableWriter self, cross;
  std::vector<int32_t> positions, results(static_cast<size_t>(out.tokens));
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = static_cast<int32_t>(out.tokens) + static_cast<int32_t>(i);
  for (const WholePrompt& p : prompts) {
    const auto i = static_cast<size_t>(p.sequence);
    const auto group = static_cast<size_t>(group_of(m, p.first_row));
    self.add(p.tokens, p.tokens, block_size, m.self_pages, m.self_pages.indptr[i], true);
    cross.add(p.tokens, m.cross_seq_lens[group], block_size, m.cross_pages,
              m.cross_pages.indptr[group], false);
    for (int32_t t = 0; t < p.tokens; ++t) {
      if (t >= p.computed)
        results[static_cast<size_t>(p.first_row + t - p.computed)] =
            static_cast<int32_t>(2 * out.tokens + std::ssize(positions));
      positions.push_back(t);
    }
  }
  out.rows = std::ssize(positions);
  std::vector<int32_t> biases(static_cast<size_t>(out.count * out.rows * heads.count()));
  int32_t offset = 0;
  for (const WholePrompt& p : prompts) {
    mix(p, offset, out, all_heads, heads.local.queries, biases);
    offset += p.tokens;
  }
  out.self = self.made(ctx, heads);
  out.cross = cross.made(ctx, heads);
  out.positions = step_list(ctx, positions);
  out.biases = step_list(ctx, biases);
  out.results = step_list(ctx, results);
  return out;
}

Tensor stream_results(Context& ctx, const Tensor& rows, const StepTensors::Streams& s) {
  if (s.results.empty()) return rows.rows(s.tokens, 2 * s.tokens);
  const Tensor out = ctx.make({s.tokens, rows.dim(1)});
  ops::gather_rows(ctx, {rows, s.results, out});
  return out;
}

StreamEmbeddings::StreamEmbeddings(const Build& b, const std::vector<Tensor>& tables, Norm norm)
    : build_(b), norm_(std::move(norm)) {
  for (const Tensor& table : tables) tables_.push_back(b.ctx.resident(table));
}

Tensor StreamEmbeddings::with_streams(const Tensor& tokens, const StepTensors& in) const {
  const StepTensors::Streams& s = in.streams;
  const Tensor out = build_.ctx.make({2 * s.tokens + s.count * s.rows, tokens.dim(1)});
  ops::layer_norm(build_.ctx, norm_.args({}, tokens, out.rows(0, s.tokens), {}));
  const auto embed = [&](const Tensor& positions, int stream, int64_t first) {
    const Tensor rows = out.rows(first, first + positions.dim(0));
    ops::EmbeddingArgs args{positions, positions, tables_[static_cast<size_t>(stream)], {}, 1.0f, 0,
                            0,         rows};
    args.norm_weight = norm_.weight();
    args.norm_bias = norm_.bias();
    args.norm_eps = norm_.eps();
    ops::embedding(build_.ctx, args);
  };
  embed(in.positions, 0, s.tokens);
  for (int i = 0; i < s.count; ++i) embed(s.positions, i, 2 * s.tokens + i * s.rows);
  return out;
}

StreamAttention::StreamAttention(const Weights& w, const Build& b, int64_t d_model,
                                 const AttentionOptions& o, const StreamOptions& streams)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      streams_(streams),
      biases_(biases_of_all(w, b, d_model, o.heads, streams)),
      bucket_of_(resident_list(b.ctx, stream_buckets(streams))) {}

Tensor StreamAttention::own_biases(const Tensor& biases) const {
  const Range heads = heads_.local.queries * streams_.num_buckets;
  return biases.columns(heads.begin, heads.end);
}

Tensor StreamAttention::mixed_biases(const Tensor& biases, const StepTensors::Streams& s) const {
  const int64_t buckets = streams_.num_buckets, rows = s.count * s.rows;
  const Tensor out = build_.ctx.make({rows * heads_.count(), buckets});
  const Tensor of_heads = biases.reshape({biases.size() / buckets, buckets});
  ops::gather_rows(build_.ctx, {of_heads, s.biases, out});
  return out.reshape({rows, heads_.count() * buckets});
}

Tensor StreamAttention::forward(NormedRows& x, const StepTensors& in, const KvPages& pages) const {
  const StepTensors::Streams& s = in.streams;
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor biases = biases_.forward(x.rows());
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::write_kv(build_.ctx, {k.rows(0, s.tokens), v.rows(0, s.tokens), in.slot_mapping, pages});
  ops::BucketAttentionArgs args{};
  args.pages = pages;
  args.num_heads = heads_.count();
  args.head_dim = heads_.head_dim;
  args.scale = options_.scale;
  args.buckets = streams_.num_buckets;
  args.bucket_of = bucket_of_;
  const auto see = [&](const Tensor& starts, const StepTensors::Pages& table,
                       const ops::DeviceAttentionPlan* plan) {
    args.qo_indptr = starts;
    args.kv_indptr = table.indptr;
    args.kv_page_indices = table.page_indices;
    args.kv_last_page_len = table.last_page_len;
    args.plan = plan;
  };
  const auto attend = [&](int64_t begin, int64_t end, const Tensor& biases_of_rows, bool stream) {
    args.q = q.rows(begin, end);
    args.out = out.rows(begin, end);
    args.biases = biases_of_rows;
    args.ahead = stream ? 1 : 0;
    args.own_k = stream ? k.rows(begin, end) : Tensor();
    args.own_v = stream ? v.rows(begin, end) : Tensor();
    ops::bucket_attention(build_.ctx, args);
  };
  const Tensor own = own_biases(biases);
  see(in.query_start_loc, in.self_pages, in.self_plan());
  attend(0, s.tokens, own.rows(0, s.tokens), false);
  attend(s.tokens, 2 * s.tokens, own.rows(s.tokens, 2 * s.tokens), true);
  if (s.count == 0) return out_.forward(out);
  const Tensor mixed = mixed_biases(biases, s);
  see(s.self.starts, s.self.pages, s.self.plan());
  for (int i = 0; i < s.count; ++i) {
    args.behind = i;
    const int64_t begin = i * s.rows, end = begin + s.rows;
    attend(2 * s.tokens + begin, 2 * s.tokens + end, mixed.rows(begin, end), true);
  }
  return out_.forward(out);
}

}  // namespace tandem
