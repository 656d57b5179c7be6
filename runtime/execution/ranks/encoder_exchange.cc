#include "runtime/execution/ranks/encoder_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"
#include "runtime/execution/kv_cache.h"

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

// What a decoders' rank says of itself: four numbers of its share, and its place.
using Said = std::array<int64_t, 6>;

}  // namespace

// --- EncoderOutbox -------------------------------------------------------------------------------

EncoderOutbox::EncoderOutbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
                             const KvCacheSpec& spec, const DevicePlace& place)
    : group_(std::move(group)) {
  if (!ctx.on_cpu()) {
    staged_.emplace(ctx, spec);
    shared_.emplace(ctx, spec);
  }
  for (int rank = 0; rank < ranks.first; ++rank) {
    Said said{};
    group_->receive(view_of(said), rank);
    const auto [first_layer, layers, first_head, heads] =
        std::array{static_cast<int>(said[0]), static_cast<int>(said[1]), static_cast<int>(said[2]),
                   static_cast<int>(said[3])};
    TANDEM_CHECK(first_layer >= 0 && layers >= 0 && first_layer + layers <= spec.num_layers);
    TANDEM_CHECK(first_head >= 0 && heads >= 0 && first_head + heads <= spec.num_heads);
    const bool all = layers == spec.num_layers && heads == spec.num_heads;
    const bool here = place == DevicePlace{said[4], static_cast<int32_t>(said[5])};
    shares_.push_back({first_layer, layers, first_head, heads, shared_ && all && here});
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

bool EncoderOutbox::any_share(bool by_ticket) const {
  return std::any_of(shares_.begin(), shares_.end(),
                     [&](const Share& share) { return share.by_ticket == by_ticket; });
}

void EncoderOutbox::append(const KvCache& pages, std::span<const int32_t> blocks,
                           const Share& share, std::vector<std::byte>& out) const {
  out.reserve(bytes_of(pages, share.layers, share.heads, blocks.size()));
  for (int layer = share.first_layer; layer < share.first_layer + share.layers; ++layer) {
    const KvPages& of_layer = pages.layers.at(static_cast<size_t>(layer));
    const Tensor &data = of_layer.data, &scales = of_layer.scales;
    for (const int32_t block : blocks) {
      append_heads(data, block, share.first_head, share.heads, out);
      if (!scales.empty()) append_heads(scales, block, share.first_head, share.heads, out);
    }
  }
}

void EncoderOutbox::post(const KvCache& cache, std::span<const Source> sources) {
  std::vector<int32_t> all;
  for (const Source& source : sources)
    all.insert(all.end(), source.blocks.begin(), source.blocks.end());
  const KvCache* pages = &cache;
  SharedPages::Pages shared;
  if (any_share(true)) shared = shared_->copy(cache, all);
  // (Either way the device has done all of it then.)
  if (staged_ && any_share(false))
    pages = &staged_->copy_out(cache, all);
  else if (shared_)
    shared_->synchronize();
  std::vector<Letter> letters;
  int64_t first = 0;
  for (const auto& [seq_id, blocks] : sources) {
    Letter& letter = letters.emplace_back(Letter{seq_id, std::ssize(blocks), {}, shared, first});
    first += std::ssize(blocks);
    for (const Share& share : shares_) {
      letter.contents.emplace_back();
      if (!share.by_ticket) append(*pages, blocks, share, letter.contents.back());
    }
  }
  {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    std::move(letters.begin(), letters.end(), std::back_inserter(letters_));
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
    const bool by_ticket = shares_[rank].by_ticket;
    std::array<int64_t, 4> head{letter.seq_id, letter.blocks,
                                by_ticket ? shared_->leave(letter.shared) : 0, letter.first_shared};
    group_->send(view_of(head), to);
    if (by_ticket || parts == 0) continue;
    const size_t part = contents.size() / static_cast<size_t>(parts);
    for (size_t at = 0; at < contents.size(); at += part)
      group_->send(view_of(const_cast<std::byte*>(contents.data()) + at, part), to);
  }
}

// --- EncoderInbox --------------------------------------------------------------------------------

EncoderInbox::EncoderInbox(Context& ctx, std::shared_ptr<Communicator> group, EncoderRanks ranks,
                           const KvCacheSpec& spec, int first_layer, const DevicePlace& place)
    : ctx_(ctx), group_(std::move(group)), ranks_(ranks) {
  if (!ctx.on_cpu()) staged_.emplace(ctx, spec);
  Said said{first_layer,    spec.num_layers, spec.first_head,
            spec.num_heads, place.process,   place.device};
  for (int rank = ranks.first; rank < ranks.end(); ++rank) group_->send(view_of(said), rank);
}

void EncoderInbox::take(const proto::StepInput& step, const KvCache& cache) {
  int blocks = 0;
  for (const proto::EncoderTake& one : step.takes()) blocks += one.blocks_size();
  std::vector<int32_t> of_staged;  // where they go, one behind the other
  for (const proto::EncoderTake& one : step.takes()) {
    const Head head = receive_head(one);
    if (head.ticket != 0) {
      copy_shared(one, head, cache);
    } else if (!staged_ || one.blocks_size() == 0) {
      receive(one.rank(), head.blocks, cache, blocks_of(one));
    } else {
      const KvCache& pages = staged_->room(blocks, cache.block_size);
      std::vector<int32_t> to(blocks_of(one).size());
      std::iota(to.begin(), to.end(), static_cast<int32_t>(of_staged.size()));
      receive(one.rank(), head.blocks, pages, to);
      of_staged.insert(of_staged.end(), one.blocks().begin(), one.blocks().end());
    }
  }
  if (staged_) staged_->copy_in(cache, of_staged);
}

// An end that nobody wants names no blocks.
EncoderInbox::Head EncoderInbox::receive_head(const proto::EncoderTake& take) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("step input: takes: sequence " + std::to_string(take.seq_id()) +
                             ", rank " + std::to_string(take.rank()) + ": " + what);
  };
  if (take.rank() < ranks_.first || take.rank() >= ranks_.end()) fail("it runs no encoders");
  std::array<int64_t, 4> said{};
  group_->receive(view_of(said), take.rank());
  const Head head{said[0], said[1], said[2], said[3]};
  if (head.seq_id != take.seq_id()) fail("it sent sequence " + std::to_string(head.seq_id));
  if (take.blocks_size() > 0 && head.blocks != take.blocks_size())
    fail("it sent " + std::to_string(head.blocks) + " blocks, not " +
         std::to_string(take.blocks_size()));
  return head;
}

// Into those blocks of `pages`; none: nobody wants them.
void EncoderInbox::receive(int rank, int64_t blocks, const KvCache& pages,
                           std::span<const int32_t> to) {
  const bool wanted = !to.empty();
  for (const KvPages& of_layer : pages.layers) {
    const Tensor &data = of_layer.data, &scales = of_layer.scales;
    const size_t bytes = block_bytes(data), of_scales = scales.empty() ? 0 : block_bytes(scales);
    if (bytes == 0) continue;  // with more ranks than heads
    for (int64_t i = 0; i < blocks; ++i) {
      const int32_t block = wanted ? to[static_cast<size_t>(i)] : 0;
      if (wanted && of_scales == 0) {
        group_->receive(view_of(block_of(data, block), bytes), rank);
        continue;
      }
      landing_.resize(bytes + of_scales);
      group_->receive(view_of(landing_.data(), landing_.size()), rank);
      if (!wanted) continue;
      std::memcpy(block_of(data, block), landing_.data(), bytes);
      std::memcpy(block_of(scales, block), landing_.data() + bytes, of_scales);
    }
  }
}

void EncoderInbox::copy_shared(const proto::EncoderTake& take, const Head& head,
                               const KvCache& cache) {
  const SharedPages::Pages pages = SharedPages::take(head.ticket);
  if (pages == nullptr)  // its rank is gone, as this one will be
    throw std::runtime_error("the rank that ran the encoder has ended");
  if (take.blocks_size() == 0) return;
  std::vector<int32_t> pairs;
  auto from = static_cast<int32_t>(head.first_shared);
  for (const int32_t block : take.blocks()) pairs.insert(pairs.end(), {from++, block});
  copy_pages(ctx_, *pages, cache, pairs);
  held_.push_back({ctx_.backend().mark(), pages});
}

void EncoderInbox::let_go() {
  if (held_.empty()) return;
  DeviceBackend& backend = ctx_.backend();
  const uint64_t now = backend.mark();
  while (!held_.empty()) {
    const uint64_t mark = held_.front().mark;
    if (now - mark >= DeviceBackend::kMarksKept)
      backend.synchronize();  // (it cannot be asked for any more)
    else if (!backend.reached(mark))
      return;
    held_.pop_front();
  }
}

}  // namespace tandem
