// Places, and the memory behind them, which grows (device_sequences.h).
#include "runtime/execution/device/device_sequences.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/check.h"
#include "runtime/execution/device/device_memory.h"

namespace tandem {
namespace {

constexpr int64_t kFirstPlaces = 64;
constexpr int64_t kFirstRow = 256;
// Of reserve_for(): tokens of a sequence where no limit is known, and of all.
constexpr int64_t kReservedRow = 2048;
constexpr int64_t kReservedTokens = int64_t{1} << 24;
// What page_reference() can say.
constexpr int64_t kMaxPlaces = int64_t{1} << (31 - ops::kPlacePageBits);
constexpr int64_t kMaxPages = int64_t{1} << ops::kPlacePageBits;

}  // namespace

DeviceSequences::DeviceSequences(Context& ctx, int block_size, int max_tokens)
    : ctx_(ctx), block_size_(block_size), max_tokens_(max_tokens) {}

bool DeviceSequences::reserve(int64_t places, int64_t tokens) {
  if (places > kMaxPlaces)
    throw std::runtime_error(std::to_string(places) + " sequences, more than a device searches");
  const bool any = !memory_.tokens.empty();
  const int64_t have_places = any ? memory_.tokens.dim(0) : 0;
  const int64_t have_tokens = any ? memory_.tokens.dim(1) : 0;
  if (places <= have_places && tokens <= have_tokens) return false;
  const int64_t rows = grown(have_places, kFirstPlaces, places);
  // One more than a model's positions: the last token is chosen, and never computed.
  const int64_t columns = grown(have_tokens, max_tokens_ > 0 ? max_tokens_ + 1 : kFirstRow, tokens);
  const int64_t pages = columns / block_size_ + 1;
  if (pages > kMaxPages)
    throw std::runtime_error(std::to_string(pages) + " blocks of a sequence, more than a device " +
                             "searches");
  const ops::SequenceMemory larger = {enlarged(ctx_, memory_.tokens, {rows, columns}, DType::kI32),
                                      enlarged(ctx_, memory_.pages, {rows, pages}, DType::kI32),
                                      enlarged(ctx_, memory_.scores, {rows}, DType::kF32)};
  ctx_.backend().synchronize();  // the old memory may go
  memory_ = larger;
  return true;
}

void DeviceSequences::reserve_for(int sequences) {
  const int64_t tokens = max_tokens_ > 0 ? max_tokens_ + 1 : kReservedRow;
  reserve(std::min({int64_t{sequences}, kReservedTokens / tokens, kMaxPlaces}), tokens);
}

bool DeviceSequences::begin(std::span<const Start> starts) {
  if (starts.empty()) return false;
  std::vector<ops::SequenceBegin> begins;
  std::vector<int32_t> data;
  int64_t longest = 0;
  for (const Start& start : starts) {
    const auto [it, is_new] = held_.try_emplace(start.seq_id);
    Held& held = it->second;
    if (is_new && !free_.empty()) {
      held.place = free_.back();
      free_.pop_back();
    } else if (is_new) {
      held.place = num_places_++;
    }
    held.tokens = static_cast<int>(start.prompt.size() + start.output.size());
    longest = std::max<int64_t>(longest, held.tokens);
    begins.push_back({held.place, static_cast<int32_t>(data.size()), held.tokens,
                      static_cast<int32_t>(start.pages.size()), start.score});
    for (const auto& part : {start.prompt, start.output, start.pages})
      data.insert(data.end(), part.begin(), part.end());
  }
  const bool moved = reserve(num_places_, longest + 1);
  const size_t head = begins.size() * ops::kSequenceBeginInts;
  std::vector<int32_t> all(head);
  std::memcpy(all.data(), begins.data(), head * sizeof(int32_t));
  all.insert(all.end(), data.begin(), data.end());
  const Tensor there = ctx_.make({std::ssize(all)}, DType::kI32);
  ctx_.backend().copy_in(Tensor::borrow(all), there);
  ops::begin_sequences(
      ctx_, {memory_,
             there.rows(0, static_cast<int64_t>(head))
                 .reshape({static_cast<int64_t>(begins.size()), ops::kSequenceBeginInts}),
             there.rows(static_cast<int64_t>(head), std::ssize(all))});
  return moved;
}

bool DeviceSequences::reserve_next(std::span<const int64_t> seq_ids) {
  int64_t longest = 0;
  for (const int64_t id : seq_ids) longest = std::max<int64_t>(longest, held_.at(id).tokens + 1);
  return reserve(num_places_, longest);
}

void DeviceSequences::append(int64_t seq_id) {
  Held& held = held_.at(seq_id);
  ++held.tokens;
  TANDEM_CHECK_LE(int64_t{held.tokens}, memory_.tokens.dim(1));
}

void DeviceSequences::forget(std::span<const int64_t> seq_ids) {
  for (const int64_t id : seq_ids) {
    const auto it = held_.find(id);
    if (it == held_.end()) continue;
    free_.push_back(it->second.place);
    held_.erase(it);
  }
}

bool DeviceSequences::has(int64_t seq_id, int tokens) const {
  const auto it = held_.find(seq_id);
  return it != held_.end() && it->second.tokens == tokens;
}

void DeviceSequences::check_integrity() const {
  TANDEM_CHECK_EQ(held_.size() + free_.size(), static_cast<size_t>(num_places_));
  std::vector<bool> taken(static_cast<size_t>(num_places_));
  const auto take = [&](int32_t place) {
    TANDEM_CHECK(place >= 0 && place < num_places_ && !taken[static_cast<size_t>(place)]);
    taken[static_cast<size_t>(place)] = true;
  };
  for (const auto& [id, held] : held_) {
    take(held.place);
    TANDEM_CHECK_LE(int64_t{held.tokens}, memory_.tokens.dim(1));
  }
  for (const int32_t place : free_) take(place);
}

}  // namespace tandem
