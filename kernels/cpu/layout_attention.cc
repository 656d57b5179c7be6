// The CPU's attention over FlashInfer's layouts: a task is up to kRowsPerTask rows of one request
// and one head of keys. A row is a query's head of those that read it. Scores of a row lie in one
// row over all its keys, which are read in runs: so nothing depends on pages.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/layouts/strided_attention.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kRunKeys = 64;  // at most, read by all rows while they are in the caches
constexpr float kUnseen = -std::numeric_limits<float>::infinity();

class LayoutAttention {
 public:
  LayoutAttention(Context& ctx, const StridedAttention& a)
      : a_(a), group_(a.num_heads / a.kv_heads), elements_(a.first_elements()) {
    if (a.scores.packed_custom_mask.rank() > 0) bytes_ = a.first_bytes();
    const bool bf16 = a.type == DType::kBF16;
    score_ = bf16 ? isa_.score_run_bf16 : isa_.score_run_f32;
    add_ = bf16 ? isa_.add_run_bf16 : isa_.add_run_f32;
    int64_t longest = 0;
    for (int64_t s = 0; s < a.requests; ++s) {
      first_.push_back(first_.back() + ceil_div(a.queries(s) * group_, kRowsPerTask));
      if (a.queries(s) > 0) longest = std::max(longest, a.keys(s));
    }
    for (int i = 0; i < a.num_parts; ++i) ldq_[i] = round_up(a.parts[i].k.dim, kLanes16);
    ldv_ = round_up(a.v.dim, kLanes16);
    lds_ = round_up(longest, kLanes16);
    slice_ = kRowsPerTask * (ldq_[0] + ldq_[1] + ldv_ + lds_ + kRunKeys);
    workspace_ = static_cast<float*>(
        ctx.workspace(static_cast<size_t>(slice_ * ctx.threads()) * sizeof(float)));
  }

  int64_t tasks() const { return first_.back() * a_.kv_heads; }

  void operator()(int64_t task, int thread) const {
    const int64_t block = task / a_.kv_heads;
    const int64_t s = std::upper_bound(first_.begin(), first_.end(), block) - first_.begin() - 1;
    Rows rows{};
    rows.request = s;
    rows.kv_head = task % a_.kv_heads;
    rows.first = (block - first_[static_cast<size_t>(s)]) * kRowsPerTask;
    rows.count = std::min(kRowsPerTask, a_.queries(s) * group_ - rows.first);
    rows.keys = a_.scores.causal ? seen(s, rows.query(rows.count - 1, group_)) : a_.keys(s);
    rows.q[0] = workspace_ + thread * slice_;
    rows.q[1] = rows.q[0] + kRowsPerTask * ldq_[0];
    rows.acc = rows.q[1] + kRowsPerTask * ldq_[1];
    rows.scores = rows.acc + kRowsPerTask * ldv_;
    rows.more = rows.scores + kRowsPerTask * lds_;
    attend(rows);
  }

 private:
  struct Rows {
    int64_t request, kv_head;
    int64_t first, count;  // of the request's rows, query by query
    int64_t keys;          // that any of them may see
    float* q[2];           // [count][ldq_], scaled
    float *acc, *scores;   // [count][ldv_], [count][lds_]
    float* more;           // [count][kRunKeys], scores of the second part

    int64_t query(int64_t row, int64_t group) const { return (first + row) / group; }
    int64_t head(int64_t row, int64_t group) const {
      return kv_head * group + (first + row) % group;
    }
  };

  // How many keys a causal query sees.
  int64_t seen(int64_t s, int64_t query) const {
    return std::clamp<int64_t>(query + 1 + a_.keys(s) - a_.queries(s), 0, a_.keys(s));
  }

  // Calls body(data of the first key, first key, how many of them) of keys in consecutive places.
  template <class Body>
  void for_runs(const Rows& rows, const KeySide& side, const Body& body) const {
    const auto* data = static_cast<const std::byte*>(side.data);
    const int64_t base = a_.kv[rows.request], size = static_cast<int64_t>(size_of(a_.type));
    for (int64_t j = 0; j < rows.keys;) {
      const bool paged = a_.pages != nullptr;
      const int64_t offset = paged ? j % a_.page_size : base + j;
      const int64_t page = paged ? a_.pages[base + j / a_.page_size] * side.page : 0;
      int64_t count = std::min(kRunKeys - j % kRunKeys, rows.keys - j);
      if (paged) count = std::min(count, a_.page_size - offset);
      const int64_t at = page + offset * side.token + rows.kv_head * side.head;
      body(data + at * size, j, count);
      j += count;
    }
  }

  void attend(const Rows& rows) const {
    load_queries(rows);
    score_keys(rows);
    float inverse[kRowsPerTask];
    for (int64_t r = 0; r < rows.count; ++r) inverse[r] = weigh(rows, r);
    std::fill_n(rows.acc, rows.count * ldv_, 0.0f);
    for_runs(rows, a_.v, [&](const void* data, int64_t j, int64_t count) {
      add_({data, a_.v.token, count, a_.v.dim, static_cast<int>(rows.count)}, rows.acc, ldv_,
           rows.scores + j, lds_);
    });
    for (int64_t r = 0; r < rows.count; ++r) {
      float* out = a_.out.row<float>(query_row(rows, r)) + rows.head(r, group_) * a_.v.dim;
      for (int d = 0; d < a_.v.dim; ++d) out[d] = rows.acc[r * ldv_ + d] * inverse[r];
    }
  }

  int64_t query_row(const Rows& rows, int64_t r) const {
    return a_.qo[rows.request] + rows.query(r, group_);
  }

  void load_queries(const Rows& rows) const {
    for (int i = 0; i < a_.num_parts; ++i) {
      const StridedAttention::Part& part = a_.parts[i];
      for (int64_t r = 0; r < rows.count; ++r) {
        const float* q = part.q.row<float>(query_row(rows, r)) + rows.head(r, group_) * part.k.dim;
        float* to = rows.q[i] + r * ldq_[i];
        for (int64_t d = 0; d < ldq_[i]; ++d)
          to[d] = d < part.k.dim ? q[d] * a_.scores.scale : 0.0f;
      }
    }
  }

  void score_keys(const Rows& rows) const {
    const int count_of_rows = static_cast<int>(rows.count);
    for (int i = 0; i < a_.num_parts; ++i) {
      const KeySide& side = a_.parts[i].k;
      for_runs(rows, side, [&](const void* data, int64_t j, int64_t count) {
        const StridedRun run{data, side.token, count, side.dim, count_of_rows};
        if (i == 0) return score_(run, rows.q[i], ldq_[i], rows.scores + j, lds_);
        score_(run, rows.q[i], ldq_[i], rows.more, kRunKeys);
        for (int64_t r = 0; r < rows.count; ++r)
          for (int64_t k = 0; k < count; ++k)
            rows.scores[r * lds_ + j + k] += rows.more[r * kRunKeys + k];
      });
    }
  }

  // The row's scores become weights. Returns what their sum is to be multiplied by.
  float weigh(const Rows& rows, int64_t r) const {
    float* scores = rows.scores + r * lds_;
    const int64_t query = rows.query(r, group_), head = rows.head(r, group_);
    if (a_.scores.soft_cap > 0) isa_.soft_cap(a_.scores.soft_cap, scores, rows.keys);
    add_bias(rows, query, head, scores);
    hide(rows, query, scores);
    float top = kUnseen, inverse = 0.0f, lse = kUnseen;
    // (Of no score but -infinity there is no exponential.)
    const bool sees = std::any_of(scores, scores + rows.keys, [](float x) { return x != kUnseen; });
    if (sees) {
      const float sum = isa_.softmax(scores, rows.keys, &top);
      inverse = 1.0f / sum;
      lse = top + std::log(sum);
    } else {
      std::fill_n(scores, rows.keys, 0.0f);
    }
    if (a_.lse.rank() > 0) a_.lse.row<float>(query_row(rows, r))[head] = lse;
    return inverse;
  }

  int64_t element(const Rows& rows, int64_t query) const {
    return elements_[static_cast<size_t>(rows.request)] + query * a_.keys(rows.request);
  }

  void add_bias(const Rows& rows, int64_t query, int64_t head, float* scores) const {
    const Tensor& bias = a_.scores.bias;
    if (bias.rank() == 0) return;
    const float* b =
        (bias.rank() == 2 ? bias.row<float>(head) : bias.data<float>()) + element(rows, query);
    // A hidden key's score may be no number.
    for (int64_t j = 0; j < rows.keys; ++j)
      scores[j] = b[j] == kUnseen ? kUnseen : scores[j] + b[j];
  }

  void hide(const Rows& rows, int64_t query, float* scores) const {
    const ScoreRules& rules = a_.scores;
    if (rules.custom_mask.rank() > 0) {
      const uint8_t* mask = rules.custom_mask.data<uint8_t>() + element(rows, query);
      for (int64_t j = 0; j < rows.keys; ++j) scores[j] = mask[j] == 0 ? kUnseen : scores[j];
    }
    if (rules.packed_custom_mask.rank() > 0) {
      const uint8_t* bits =
          rules.packed_custom_mask.data<uint8_t>() + bytes_[static_cast<size_t>(rows.request)];
      const int64_t first = query * a_.keys(rows.request);
      for (int64_t j = 0; j < rows.keys; ++j)
        if ((bits[(first + j) / 8] >> ((first + j) % 8) & 1) == 0) scores[j] = kUnseen;
    }
    if (rules.causal)
      for (int64_t j = seen(rows.request, query); j < rows.keys; ++j) scores[j] = kUnseen;
  }

  const StridedAttention& a_;
  const IsaKernels& isa_ = isa_kernels();
  int64_t group_;
  std::vector<int64_t> elements_, bytes_;
  std::vector<int64_t> first_{0};  // block of rows of each request
  void (*score_)(const StridedRun&, const float*, int64_t, float*, int64_t);
  void (*add_)(const StridedRun&, float*, int64_t, float*, int64_t);
  int64_t ldq_[2] = {0, 0};
  int64_t ldv_, lds_, slice_;
  float* workspace_;
};

void attend(Context& ctx, const StridedAttention& a) {
  const LayoutAttention attention(ctx, a);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace

void attend_ragged(Context& ctx, const ops::AttendRaggedArgs& args) { attend(ctx, strided(args)); }
void attend_pages(Context& ctx, const ops::AttendPagesArgs& args) { attend(ctx, strided(args)); }
void attend_latent(Context& ctx, const ops::AttendLatentArgs& args) { attend(ctx, strided(args)); }

void merge_states(Context& ctx, const ops::MergeStatesArgs& args) {
  const int64_t states = args.v.dim(0), heads = args.v.dim(2), dim = args.v.dim(3);
  for_rows(ctx, args.v.dim(1), states * heads * dim * 4, [&](int64_t t) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto sum_of = [&](int64_t i) { return args.s.row<float>(i)[t * heads + h]; };
      float top = kUnseen, sum = 0.0f;
      for (int64_t i = 0; i < states; ++i) top = std::max(top, sum_of(i));
      float* out = args.out.row<float>(t) + h * dim;
      std::fill_n(out, dim, 0.0f);
      for (int64_t i = 0; i < states && top != kUnseen; ++i) {
        const float weight = std::exp(sum_of(i) - top);
        if (weight == 0.0f) continue;  // what a state without keys holds does not matter
        sum += weight;
        const float* v = args.v.row<float>(i) + (t * heads + h) * dim;
        for (int64_t d = 0; d < dim; ++d) out[d] += weight * v[d];
      }
      for (int64_t d = 0; d < dim && sum > 0; ++d) out[d] /= sum;
      if (args.lse.rank() > 0) args.lse.row<float>(t)[h] = sum > 0 ? top + std::log(sum) : kUnseen;
    }
  });
}

}  // namespace tandem::cpu
