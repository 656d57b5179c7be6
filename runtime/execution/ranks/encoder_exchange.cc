#include "runtime/execution/ranks/encoder_exchange.h"

#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

Tensor view_of(std::byte* data, size_t bytes) {
  return Tensor::borrow(data, {static_cast<int64_t>(bytes)}, DType::kU8);
}

template <class T, size_t n>
Tensor view_of(std::array<T, n>& values) {
  return view_of(reinterpret_cast<std::byte*>(values.data()), sizeof values);
}

// Of all heads and both keys and values of a block.
size_t block_bytes(const Tensor& pages) {
  return pages.bytes() / static_cast<size_t>(pages.dim(0));
}

std::byte* block_of(const Tensor& pages, int32_t block) {
  return static_cast<std::byte*>(pages.raw()) + static_cast<size_t>(block) * block_bytes(pages);
}

// pages: [blocks, 2, heads, ...].
void append_heads(const Tensor& pages, int32_t block, int first, int count,
                  std::vector<std::byte>& out) {
  const size_t head = block_bytes(pages) / static_cast<size_t>(2 * pages.dim(2));
  for (int64_t side = 0; side < 2; ++side) {
    const std::byte* from =
        block_of(pages, block) + static_cast<size_t>(side * pages.dim(2) + first) * head;
    out.insert(out.end(), from, from + static_cast<size_t>(count) * head);
  }
}

std::span<const int32_t> blocks_of(const proto::EncoderTake& take) {
  return {take.blocks().data(), static_cast<size_t>(take.blocks_size())};
}

// Of so many blocks, in some layers and heads.
size_t bytes_of(const KvCache& cache, int layers, int heads, size_t blocks) {
  if (cache.layers.empty()) return 0;
  const KvPages& pages = cache.layers.front();
  const size_t block =
      block_bytes(pages.data) + (pages.scales.empty() ? 0 : block_bytes(pages.scales));
  return block / static_cast<size_t>(pages.data.dim(2)) * static_cast<size_t>(heads) *
         static_cast<size_t>(layers) * blocks;
}

}  // namespace

// --- EncoderOutbox -------------------------------------------------------------------------------

EncoderOutbox::EncoderOutbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
                             const KvCacheSpec& spec)
    : group_(std::move(group)) {
  if (!ctx.on_cpu()) staged_.emplace(ctx, spec);
  for (int rank = 0; rank < ranks.first; ++rank) {
    std::array<int32_t, 4> said{};
    group_->receive(view_of(said), rank);
    const auto& [first_layer, layers, first_head, heads] = said;
    TANDEM_CHECK(first_layer >= 0 && layers >= 0 && first_layer + layers <= spec.num_layers);
    TANDEM_CHECK(first_head >= 0 && heads >= 0 && first_head + heads <= spec.num_heads);
    shares_.push_back({first_layer, layers, first_head, heads});
  }
  thread_ = std::thread([this] { run(); });
}

EncoderOutbox::~EncoderOutbox() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  group_->abort();
  thread_.join();
}

void EncoderOutbox::post(const KvCache& cache, std::span<const Source> sources) {
  const KvCache* pages = &cache;
  if (staged_) {
    std::vector<int32_t> all;
    for (const Source& source : sources)
      all.insert(all.end(), source.blocks.begin(), source.blocks.end());
    pages = &staged_->copy_out(cache, all);
  }
  for (const Source& source : sources) post(*pages, source);
}

void EncoderOutbox::post(const KvCache& pages, const Source& source) {
  const auto& [seq_id, blocks] = source;
  Letter letter{seq_id, std::ssize(blocks), {}};
  for (const Share& share : shares_) {
    std::vector<std::byte>& contents = letter.contents.emplace_back();
    contents.reserve(bytes_of(pages, share.layers, share.heads, blocks.size()));
    for (int layer = share.first_layer; layer < share.first_layer + share.layers; ++layer) {
      const KvPages& of_layer = pages.layers.at(static_cast<size_t>(layer));
      const Tensor &data = of_layer.data, &scales = of_layer.scales;
      for (const int32_t block : blocks) {
        append_heads(data, block, share.first_head, share.heads, contents);
        if (!scales.empty()) append_heads(scales, block, share.first_head, share.heads, contents);
      }
    }
  }
  {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    letters_.push_back(std::move(letter));
  }
  changed_.notify_one();
}

void EncoderOutbox::run() {
  while (true) {
    Letter letter;
    {
      MutexLock lock(mutex_);
      while (letters_.empty() && !ends_) changed_.wait(mutex_);
      if (ends_) return;
      letter = std::move(letters_.front());
      letters_.pop_front();
    }
    try {
      send(letter);
    } catch (...) {
      const MutexLock lock(mutex_);
      error_ = std::current_exception();
      return;
    }
  }
}

void EncoderOutbox::send(const Letter& letter) {
  for (size_t rank = 0; rank < letter.contents.size(); ++rank) {
    const std::vector<std::byte>& contents = letter.contents[rank];
    const int to = static_cast<int>(rank);
    const auto parts = static_cast<int64_t>(shares_[rank].layers) * letter.blocks;
    std::array<int64_t, 2> head{letter.seq_id, letter.blocks};
    group_->send(view_of(head), to);
    if (parts == 0) continue;
    const size_t part = contents.size() / static_cast<size_t>(parts);
    for (size_t at = 0; at < contents.size(); at += part)
      group_->send(view_of(const_cast<std::byte*>(contents.data()) + at, part), to);
  }
}

// --- EncoderInbox --------------------------------------------------------------------------------

EncoderInbox::EncoderInbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
                           const KvCacheSpec& spec, int first_layer)
    : group_(std::move(group)), ranks_(ranks) {
  if (!ctx.on_cpu()) staged_.emplace(ctx, spec);
  std::array<int32_t, 4> said{first_layer, spec.num_layers, spec.first_head, spec.num_heads};
  for (int rank = ranks.first; rank < ranks.end(); ++rank) group_->send(view_of(said), rank);
}

void EncoderInbox::take(const proto::StepInput& step, const KvCache& cache) {
  if (!staged_) {
    for (const proto::EncoderTake& one : step.takes()) receive(one, cache, blocks_of(one));
    return;
  }
  std::vector<int32_t> all;  // staged one behind the other
  for (const proto::EncoderTake& one : step.takes())
    all.insert(all.end(), one.blocks().begin(), one.blocks().end());
  std::vector<int32_t> staged(all.size());
  std::iota(staged.begin(), staged.end(), 0);
  const KvCache& pages = staged_->room(static_cast<int>(all.size()), cache.block_size);
  std::span<const int32_t> left = staged;
  for (const proto::EncoderTake& one : step.takes()) {
    const auto count = static_cast<size_t>(one.blocks_size());
    receive(one, pages, left.first(count));
    left = left.subspan(count);
  }
  staged_->copy_in(cache, all);
}

// Into those blocks of `pages`; an end that nobody wants names none.
void EncoderInbox::receive(const proto::EncoderTake& take, const KvCache& pages,
                           std::span<const int32_t> to) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("step input: takes: sequence " + std::to_string(take.seq_id()) +
                             ", rank " + std::to_string(take.rank()) + ": " + what);
  };
  if (take.rank() < ranks_.first || take.rank() >= ranks_.end()) fail("it runs no encoders");
  std::array<int64_t, 2> head{};
  group_->receive(view_of(head), take.rank());
  const auto [seq_id, blocks] = head;
  if (seq_id != take.seq_id()) fail("it sent sequence " + std::to_string(seq_id));
  const bool wanted = !to.empty();
  if (wanted && blocks != std::ssize(to))
    fail("it sent " + std::to_string(blocks) + " blocks, not " + std::to_string(to.size()));
  for (const KvPages& of_layer : pages.layers) {
    const Tensor &data = of_layer.data, &scales = of_layer.scales;
    const size_t bytes = block_bytes(data), of_scales = scales.empty() ? 0 : block_bytes(scales);
    if (bytes == 0) continue;  // with more ranks than heads
    for (int64_t i = 0; i < blocks; ++i) {
      const int32_t block = wanted ? to[static_cast<size_t>(i)] : 0;
      if (wanted && of_scales == 0) {
        group_->receive(view_of(block_of(data, block), bytes), take.rank());
        continue;
      }
      landing_.resize(bytes + of_scales);
      group_->receive(view_of(landing_.data(), landing_.size()), take.rank());
      if (!wanted) continue;
      std::memcpy(block_of(data, block), landing_.data(), bytes);
      std::memcpy(block_of(scales, block), landing_.data() + bytes, of_scales);
    }
  }
}

}  // namespace tandem
