// Products of warp groups (warp_groups.h).
#include "warp_groups.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "block.h"
#include "cuda_emulator_float16.h"

namespace cuda_emulator {
namespace {

constexpr unsigned kGroupWarps = 4;
constexpr int kRowsOfGroup = 64, kK = 16;

// A signalling NaN: whatever is computed with it has other bits.
constexpr uint32_t kPoison = 0xffbfffff;

bool is_poison(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits == kPoison;
}

}  // namespace

void WarpGroups::begin_block(size_t shared) { seen_.assign(shared, 0xff); }

void WarpGroups::copied(const void* to, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(to);
  if (at < block_.shared() || at + bytes > block_.shared() + seen_.size()) return;  // static
  std::memcpy(seen_.data() + (at - block_.shared()), at, bytes);
}

void WarpGroups::stored() {
  if (!seen_.empty()) std::memcpy(seen_.data(), block_.shared(), seen_.size());
}

WarpGroups::Warp& WarpGroups::own() { return warps_[block_.running_index() / kWarp]; }

void WarpGroups::fence() { own().fenced = true; }

void WarpGroups::commit() { ++own().batch; }

// Bits of a descriptor: PTX, "matrix descriptor format" of wgmma.
WarpGroups::Place WarpGroups::place_of(Block& block, uint64_t descriptor) {
  const auto field = [&](int at) { return (descriptor >> at & 0x3fff) << 4; };
  if (descriptor >> 62 != 1) block.fail("a tile whose descriptor has not the swizzle of 128 bytes");
  if ((descriptor >> 49 & 7) != 0) block.fail("a tile's descriptor with a base offset");
  if (field(32) % 1024 != 0) block.fail("a tile whose groups of 8 rows are no 1024 bytes apart");
  return {field(0), field(32)};
}

// The address's bits 4 to 6 are changed by its bits 7 to 9.
const unsigned char* WarpGroups::element_at(const Place& place, int row, int k) const {
  const uint64_t address = place.first + static_cast<uint64_t>(row / 8) * place.stride +
                           static_cast<uint64_t>(row % 8 * 128 + k * 2);
  const unsigned char* there = block_.in_window(address ^ (address >> 3 & 0x70));
  if (there < block_.shared() || there + 2 > block_.shared() + seen_.size())
    block_.fail("a tile that is not in the dynamic shared memory");
  return there;
}

WarpGroups::Range WarpGroups::range_of(const Place& place, int rows) const {
  const uint64_t first = place.first & ~uint64_t{1023};
  return {block_.in_window(first), static_cast<size_t>(rows / 8) * place.stride};
}

float WarpGroups::element(const Product& p, const Place& place, int row, int k) const {
  const unsigned char* at = element_at(place, row, k);
  uint16_t bits, seen;
  std::memcpy(&bits, at, 2);
  std::memcpy(&seen, seen_.data() + (at - block_.shared()), 2);
  if (bits != seen)
    block_.fail("a product reads what threads have stored: stores_before_products was not called");
  return p.bf16 ? bf16_to_float(bits) : f16_to_float(bits);
}

void WarpGroups::multiply(const WarpMeeting& lanes) {
  if (lanes.mask != ~0u) block_.fail("wgmma: lanes have ended");
  const auto& first = *static_cast<const GroupProduct*>(lanes.data[0]);
  for (const void* data : lanes.data)
    if (!static_cast<const GroupProduct*>(data)->is_same(first))
      block_.fail("wgmma: lanes of a warp have different operands");
  const unsigned group = block_.running_index() / kWarp / kGroupWarps;
  if ((group + 1) * kGroupWarps * kWarp > block_.num_threads())
    block_.fail("wgmma: a warp group has 128 threads");
  Warp& warp = own();
  std::vector<GroupProduct>& issued = issued_[group];
  if (warp.issued == issued.size()) issued.push_back(first);
  if (!issued[warp.issued++].is_same(first))
    block_.fail("wgmma: warps of a group have different operands");
  if (!warp.fenced) block_.fail("wgmma: products_fence was not called since the last wait");
  const Product p{place_of(block_, first.a),
                  place_of(block_, first.b),
                  first.add,
                  first.bf16,
                  first.columns,
                  warp.batch,
                  first.sums};
  for (const Range& tile : {range_of(p.a, kRowsOfGroup), range_of(p.b, p.columns)})
    block_.bulk_copies().need_seen(tile.first, tile.bytes);
  hold_sums(warp, lanes, p);
  warp.products.push_back(p);
  if (block_.random().below(2) == 0) read_all(warp);
}

// Takes the lanes' sums until the product is waited for.
void WarpGroups::hold_sums(Warp& warp, const WarpMeeting& lanes, const Product& p) {
  Sums& sums = warp.sums[p.key];
  if (sums.products++ > 0) return;
  sums.count = p.columns / 2;
  sums.values.clear();
  for (unsigned i = 0; i < kWarp; ++i) {
    float* own = static_cast<const GroupProduct*>(lanes.data[i])->sums;
    sums.lanes[i] = own;
    sums.values.insert(sums.values.end(), own, own + sums.count);
    for (int e = 0; e < sums.count; ++e) std::memcpy(own + e, &kPoison, sizeof kPoison);
  }
}

void WarpGroups::read_all(Warp& warp) {
  for (; warp.read < warp.products.size(); ++warp.read) add_up(warp, warp.products[warp.read]);
}

void WarpGroups::add_up(Warp& warp, const Product& p) const {
  const int first_row = static_cast<int>(block_.running_index() / kWarp % kGroupWarps) * 16;
  std::vector<float> a(16 * kK), b(static_cast<size_t>(p.columns) * kK);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = element(p, p.a, first_row + static_cast<int>(i) / kK, static_cast<int>(i) % kK);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = element(p, p.b, static_cast<int>(i) / kK, static_cast<int>(i) % kK);
  Sums& sums = warp.sums.at(p.key);
  for (int lane = 0; lane < static_cast<int>(kWarp); ++lane)
    for (int i = 0; i < sums.count; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      float& sum = sums.values[static_cast<size_t>(lane * sums.count + i)];
      if (!p.add) sum = 0.0f;
      for (int k = 0; k < kK; ++k)
        sum += a[static_cast<size_t>(row * kK + k)] * b[static_cast<size_t>(column * kK + k)];
    }
}

void WarpGroups::wait(unsigned left) {
  Warp& warp = own();
  warp.fenced = false;
  while (!warp.products.empty() && warp.products.front().batch + left < warp.batch) {
    if (warp.read == 0) {
      add_up(warp, warp.products.front());
      warp.read = 1;
    }
    const Product done = warp.products.front();
    warp.products.pop_front();
    --warp.read;
    give_back(warp, done);
  }
}

void WarpGroups::give_back(Warp& warp, const Product& p) {
  Sums& sums = warp.sums.at(p.key);
  if (--sums.products > 0) return;
  for (unsigned i = 0; i < kWarp; ++i) {
    if (!std::all_of(sums.lanes[i], sums.lanes[i] + sums.count, is_poison))
      block_.fail("sums were written while a product was under way");
    std::copy_n(sums.values.begin() + static_cast<ptrdiff_t>(i) * sums.count, sums.count,
                sums.lanes[i]);
  }
  warp.sums.erase(p.key);
}

void WarpGroups::need_unread(const void* at, size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(at);
  const auto overlaps = [&](const Range& range) {
    return first < range.first + range.bytes && range.first < first + bytes;
  };
  for (const auto& [number, warp] : warps_)
    for (const Product& p : warp.products)
      if (overlaps(range_of(p.a, kRowsOfGroup)) || overlaps(range_of(p.b, p.columns)))
        block_.fail("a copy fills a tile that a product under way reads");
}

void WarpGroups::end_block() {
  for (const auto& [number, warp] : warps_) {
    if (!warp.products.empty()) block_.fail("a block ends while products are under way");
    if (warp.issued != issued_[number / kGroupWarps].size())
      block_.fail("wgmma: warps of a group have issued different numbers of products");
  }
  for (const auto& [group, issued] : issued_)
    for (unsigned i = 0; i < kGroupWarps; ++i)
      if (!warps_.contains(group * kGroupWarps + i))
        block_.fail("wgmma: a warp of a group has issued no product");
  warps_.clear();
  issued_.clear();
}

// --- what kernels call ---

const unsigned char* Block::in_window(uint64_t address) const {
  return shared_ - reinterpret_cast<uintptr_t>(shared_) % 1024 + address - kWindow;
}

size_t shared_address(const void* at) {
  Block& block = here("an address in shared memory");
  const auto* from = static_cast<const unsigned char*>(at);
  if (!block.is_shared(at, 1) || from < block.shared()) block.fail("no dynamic shared memory");
  return static_cast<size_t>(from - block.in_window(0));
}

void group_fence() {
  warp_meet("wgmma.fence", ~0u, nullptr,
            [](WarpMeeting&) { here("wgmma.fence").warp_groups().fence(); });
}
void group_multiply(GroupProduct product) {
  warp_meet("wgmma.mma_async", ~0u, &product,
            [](WarpMeeting& lanes) { here("wgmma").warp_groups().multiply(lanes); });
}
void group_commit() {
  warp_meet("wgmma.commit_group", ~0u, nullptr,
            [](WarpMeeting&) { here("wgmma.commit_group").warp_groups().commit(); });
}
void group_wait(unsigned left) {
  warp_meet("wgmma.wait_group", ~0u, &left, [](WarpMeeting& lanes) {
    here("wgmma.wait_group").warp_groups().wait(*static_cast<unsigned*>(lanes.data[0]));
  });
}
void tensor_copy(void* tile, const TensorMatrix& matrix, int row, int column, const uint64_t* at) {
  here("cp.async.bulk.tensor").bulk_copies().copy_box({tile, matrix, row, column, at});
}
void stores_before_async() {
  maybe_yield();
  here("fence.proxy.async").warp_groups().stored();
}

}  // namespace cuda_emulator
