// Products of warp groups (wgmma), which read tiles in shared memory while threads go on. A part of
// the scheduler.
//
// A product happens at any time between its issue and the wait that promises it. Until then its
// sums are NaN. Faults that hardware shows now and then end the process here:
// - A product has no fence since the last wait. Its registers may not be there.
// - Sums are written before the wait.
// - A tile is written, or a copy fills it again, before the wait.
// - The copies of a tile have not come.
// - Threads wrote a tile and did not make that known (stores_before_products).
// - Warps of a group do not multiply the same, or a block ends too soon.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "cuda_emulator.h"

namespace cuda_emulator {

class Block;

class WarpGroups {
 public:
  explicit WarpGroups(Block& block) : block_(block) {}

  void begin_block(size_t shared);
  void end_block();
  // What copies have left in shared memory, and what all threads have (products see these alone).
  void copied(const void* to, size_t bytes);
  void stored();
  // No product under way may read there.
  void need_unread(const void* at, size_t bytes);

  // By the running warp.
  void fence();
  void multiply(const WarpMeeting& lanes);  // data: GroupProduct
  void commit();
  void wait(unsigned left);

 private:
  struct Place {  // of a tile, as its descriptor says
    uint64_t first, stride;
  };
  struct Range {
    const unsigned char* first;
    size_t bytes;
  };
  struct Product {
    Place a, b;
    bool add, bf16;
    int columns;
    uint64_t batch;
    float* key;  // of its sums: the first lane's
  };
  struct Sums {
    std::array<float*, kWarp> lanes{};
    int count = 0;
    std::vector<float> values;
    int products = 0;  // under way
  };
  struct Warp {
    bool fenced = false;
    uint64_t batch = 0;            // that is being filled
    std::deque<Product> products;  // under way
    size_t read = 0;               // of them, those whose operands were read
    std::map<float*, Sums> sums;
    size_t issued = 0;
  };

  Warp& own();
  static Place place_of(Block& block, uint64_t descriptor);
  const unsigned char* element_at(const Place& place, int row, int k) const;
  float element(const Product& p, const Place& place, int row, int k) const;
  Range range_of(const Place& place, int rows) const;
  void hold_sums(Warp& warp, const WarpMeeting& lanes, const Product& p);
  void read_all(Warp& warp);
  void add_up(Warp& warp, const Product& p) const;
  void give_back(Warp& warp, const Product& p);

  Block& block_;
  std::vector<unsigned char> seen_;  // by products: shared memory without stores of late
  std::map<unsigned, Warp> warps_;
  // By group: what its warps have issued, in the order of the first of them.
  std::map<unsigned, std::vector<GroupProduct>> issued_;
};

}  // namespace cuda_emulator
