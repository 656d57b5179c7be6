// A profile in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/profile/profile.h"

namespace tandem {

// Gives `write` the text piece by piece, whole and valid JSON whatever names hold. A group is a
// process, a track a thread; times are microseconds since Profile::begun(), which is there in
// nanoseconds ("baseTimeNanoseconds"). notes: what is said of the whole, by name ("otherData");
// spans that were dropped are counted there. May run while threads record: what they have recorded
// by then is written.
void write_trace(const Profile& profile,
                 const std::vector<std::pair<std::string, std::string>>& notes,
                 const std::function<void(std::string_view)>& write);

}  // namespace tandem
