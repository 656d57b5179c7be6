// The CPU's attention over pages with biases of each query. A task is a query, with all its heads.
#include <cmath>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/products.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {
namespace {

class BucketAttention {
 public:
  BucketAttention(Context& ctx, const ops::BucketAttentionArgs& args)
      : args_(args),
        strides_(kv_strides(args.pages)),
        sequences_(args.kv_last_page_len.dim(0)),
        qo_(args.qo_indptr.data<int32_t>()),
        kv_(args.kv_indptr.data<int32_t>()) {
    for (int64_t s = 0; s < sequences_; ++s) most_keys_ = std::max(most_keys_, keys(s) + 1);
    scores_ = static_cast<float*>(
        ctx.workspace(static_cast<size_t>(most_keys_ * ctx.threads()) * sizeof(float)));
  }

  void operator()(int64_t t, int thread) const {
    float* const scores = scores_ + thread * most_keys_;
    switch (args_.pages.data.dtype()) {
      case DType::kF32: return attend<float>(t, scores);
      case DType::kI8: return attend<int8_t>(t, scores);
      default: return attend<uint16_t>(t, scores);
    }
  }

 private:
  int64_t keys(int64_t s) const {
    return strides_.block_size * (kv_[s + 1] - kv_[s] - 1) +
           args_.kv_last_page_len.data<int32_t>()[s];
  }

  template <class T>
  void attend(int64_t t, float* scores) const {
    const int64_t s =
        std::upper_bound(qo_, qo_ + sequences_ + 1, static_cast<int32_t>(t)) - qo_ - 1;
    const int64_t position = keys(s) - (qo_[s + 1] - t);
    const int64_t seen = std::max<int64_t>(position - args_.behind, 0) + 1;
    for (int64_t head = 0; head < args_.num_heads; ++head) {
      const HeadPages<T> pages{args_.pages, strides_,
                               args_.kv_page_indices.data<int32_t>() + kv_[s], head};
      const float* q = args_.q.row<float>(t) + head * args_.head_dim;
      const float* biases = args_.biases.row<float>(t) + head * args_.buckets;
      for (int64_t j = 0; j < seen; ++j)
        scores[j] = pages.product(q, j) * args_.scale + biases[bucket(position + args_.ahead - j)];
      int64_t count = seen;
      if (!args_.own_k.empty())
        scores[count++] =
            product(q, args_.own_k.row<float>(t) + head * args_.head_dim, args_.head_dim) *
                args_.scale +
            biases[bucket(0)];
      const float sum = exponentials(scores, count);
      float* out = args_.out.row<float>(t) + head * args_.head_dim;
      std::fill_n(out, args_.head_dim, 0.0f);
      for (int64_t j = 0; j < seen; ++j) pages.add_value(scores[j] / sum, j, out);
      if (count > seen)
        add_scaled(scores[seen] / sum, args_.own_v.row<float>(t) + head * args_.head_dim,
                   args_.head_dim, out);
    }
  }

  int32_t bucket(int64_t distance) const {
    return args_.bucket_of
        .data<int32_t>()[std::clamp<int64_t>(distance, 0, args_.bucket_of.dim(0) - 1)];
  }

  const ops::BucketAttentionArgs& args_;
  KvStrides strides_;
  int64_t sequences_;
  const int32_t* qo_;
  const int32_t* kv_;
  int64_t most_keys_ = 1;
  float* scores_;
};

}  // namespace

void bucket_attention(Context& ctx, const ops::BucketAttentionArgs& args) {
  const BucketAttention attention(ctx, args);
  run_tasks(ctx, args.q.dim(0), attention);
}

}  // namespace tandem::cpu
