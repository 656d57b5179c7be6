#include "runtime/execution/kv_cache.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem {
namespace {

template <class Allocate>
KvCache make_pool(const KvCacheSpec& spec, int block_size, int num_blocks, Allocate allocate) {
  KvCache cache;
  cache.block_size = block_size;
  for (int i = 0; i < spec.num_layers; ++i) {
    KvPages pages;
    pages.data = allocate({num_blocks, 2, spec.num_heads, block_size, spec.head_dim}, spec.dtype);
    if (const auto scale = page_scale_type(spec.dtype))
      pages.scales = allocate({num_blocks, 2, spec.num_heads, block_size}, *scale);
    cache.layers.push_back(std::move(pages));
  }
  return cache;
}

size_t read_number(const char* file, size_t otherwise) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word) || word.empty() || word.find_first_not_of("0123456789") != std::string::npos)
    return otherwise;
  return std::stoull(word);
}

// Of all layers: what a few requests need.
constexpr size_t kCommitted = size_t{32} << 20;

// Blocks go out in ascending order, and those that came back go out first.
void commit_first_blocks(Context& ctx, const KvCache& cache) {
  for (const KvPages& pages : cache.layers) {
    if (pages.data.bytes() == 0) continue;  // with more ranks than heads
    const size_t bytes = kCommitted / cache.layers.size();
    ctx.commit(pages.data, bytes);
    if (!pages.scales.empty())
      ctx.commit(pages.scales, bytes * pages.scales.bytes() / pages.data.bytes());
  }
}

}  // namespace

KvCache make_host_pages(Context& ctx, const KvCacheSpec& spec, int block_size, int num_blocks) {
  return make_pool(spec, block_size, num_blocks, [&](const Shape& shape, DType dtype) {
    return ctx.on_cpu() ? Tensor(shape, dtype) : ctx.backend().allocate_host(shape, dtype);
  });
}

void copy_pages(Context& ctx, const KvCache& from, const KvCache& to,
                const std::vector<int32_t>& pairs) {
  for (size_t i = 0; i < from.layers.size(); ++i) {
    const KvPages &source = from.layers[i], &target = to.layers[i];
    ops::copy_blocks(ctx, {source.data, target.data, Tensor::borrow(pairs)});
    if (!source.scales.empty())
      ops::copy_blocks(ctx, {source.scales, target.scales, Tensor::borrow(pairs)});
  }
}

KvCache make_device_pages(Context& ctx, const KvCacheSpec& spec, int block_size, int num_blocks) {
  return make_pool(spec, block_size, num_blocks, [&](const Shape& shape, DType dtype) {
    return ctx.on_cpu() ? Tensor(shape, dtype) : ctx.backend().allocate(shape, dtype);
  });
}

// On the CPU the system commits most pages when they are first written.
KvCachePools::KvCachePools(Context& ctx, const KvCacheSpec& spec, int block_size,
                           int num_device_blocks, int num_host_blocks)
    : spec_(spec),
      device_(make_device_pages(ctx, spec, block_size, num_device_blocks)),
      host_(make_host_pages(ctx, spec, block_size, num_host_blocks)) {
  if (ctx.on_cpu()) commit_first_blocks(ctx, device_);
}

void KvCachePools::make_room(Context& ctx, int num_device_blocks) {
  if (device_.layers.empty() || num_device_blocks <= device_.layers[0].data.dim(0)) return;
  if (!ctx.on_cpu()) ctx.backend().synchronize();  // which may still write the old ones
  const int block_size = device_.block_size;
  device_ = {};
  device_ = make_device_pages(ctx, spec_, block_size, num_device_blocks);
}

void KvCachePools::apply_copies(Context& ctx, const proto::StepInput& step) {
  copy(ctx, device_, host_, step.swap_out(), "swap_out");
  copy(ctx, host_, device_, step.swap_in(), "swap_in");
  copy(ctx, device_, device_, step.copy(), "copy");
}

void KvCachePools::copy(Context& ctx, const KvCache& from, const KvCache& to, const Copies& copies,
                        const char* field) const {
  if (copies.empty() || from.layers.empty()) return;
  const int64_t from_blocks = from.layers[0].data.dim(0), to_blocks = to.layers[0].data.dim(0);
  std::vector<int32_t> pairs;
  for (const auto& c : copies) {
    if (c.src() < 0 || c.src() >= from_blocks || c.dst() < 0 || c.dst() >= to_blocks)
      throw std::runtime_error(std::string("StepInput.") + field + ": block " +
                               std::to_string(c.src()) + " to " + std::to_string(c.dst()) +
                               " lies outside the pools");
    pairs.insert(pairs.end(), {c.src(), c.dst()});
  }
  copy_pages(ctx, from, to, pairs);
}

int device_blocks_for(const KvCacheSpec& spec, int block_size, size_t bytes, int max_num_seqs,
                      const ModelLimits& limits, size_t of_draft_model) {
  const size_t block = spec.block_bytes(block_size) + of_draft_model;
  if (block == 0) return 1;  // an encoder alone: nothing is kept
  size_t blocks = bytes / block;
  if (limits.encoder_positions && limits.decoder_positions) {
    const auto pages = [&](int positions) {
      return static_cast<size_t>((positions + block_size - 1) / block_size);
    };
    // A request's cross and self tables, and one more block for copies on write.
    const size_t useful = static_cast<size_t>(max_num_seqs) *
                          (pages(*limits.encoder_positions) + pages(*limits.decoder_positions) + 1);
    blocks = std::min(blocks, useful);
  }
  return static_cast<int>(std::min<size_t>(blocks, std::numeric_limits<int>::max()));
}

size_t available_memory() {
  size_t available = size_t{1} << 30;
  std::ifstream in("/proc/meminfo");
  for (std::string key, unit; in >> key;) {
    size_t value = 0;
    if (!(in >> value)) break;
    std::getline(in, unit);
    if (key == "MemAvailable:") available = value * 1024;
  }
  const size_t none = std::numeric_limits<size_t>::max();
  const size_t limit = read_number("/sys/fs/cgroup/memory.max", none);
  if (limit != none) {
    const size_t used = read_number("/sys/fs/cgroup/memory.current", 0);
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

}  // namespace tandem
