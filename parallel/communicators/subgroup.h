// A group within a group: the ranks of one stage of a pipeline.
#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"

namespace tandem {

// The group of ranks [first, first + count) of `group`, this one among them. Its collectives are
// messages of `group`, so they go wherever these go, and end with it: abort() aborts all of
// `group`, and no call waits longer than the group's. Sums are those of a group of its own, bit for
// bit. Its calls come from the thread of the group's. With one rank it exchanges nothing; then
// abort() has nobody to tell.
std::unique_ptr<Communicator> make_subgroup(std::shared_ptr<Communicator> group, int first,
                                            int count);

}  // namespace tandem
