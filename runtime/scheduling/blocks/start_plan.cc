#include "runtime/scheduling/blocks/start_plan.h"

#include <unordered_set>

namespace tandem {

StartPlan plan_start(const BlockPools& pools, const SequenceGroup& group) {
  StartPlan found;
  found.forks_own_last_block =
      group.searches_ahead() && group.seqs().front()->length() % pools.block_size() != 0;
  std::unordered_set<int32_t> idle;  // several sequences may find the same
  const auto take = [&](const Blocks& blocks) {
    found.free_blocks -= static_cast<int>(blocks.size());
    for (const int32_t block : blocks)
      if (pools.device().refs(block) == 0 && idle.insert(block).second) ++found.free_blocks;
  };
  found.self.resize(group.seqs().size());
  for (size_t i = 0; i < found.self.size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    if (seq.finished()) continue;
    if (group.waits_for_fork(seq)) {
      found.free_blocks += found.forks_own_last_block;
      continue;
    }
    found.free_blocks += pools.blocks_for(seq.length());
    found.self[i] = pools.caches().find_prefix(group, seq);
    take(found.self[i].blocks);
  }
  found.free_blocks += pools.blocks_for(group.encoder_seq().length());
  found.cross = pools.caches().find_cross(group);
  if (found.cross != nullptr) take(*found.cross);
  return found;
}

}  // namespace tandem
