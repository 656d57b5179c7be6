// A profile in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/profile/profile.h"

namespace tandem {

// Passes the text to `write` piece by piece: one valid JSON document, whatever names hold. A group
// is a process, a track a thread. Times are microseconds since Profile::begun(), which is in
// "baseTimeNanoseconds". notes: remarks on the whole, by name ("otherData"), beside the number of
// dropped spans. May run while threads record; it writes the spans recorded by then.
void write_trace(const Profile& profile,
                 const std::vector<std::pair<std::string, std::string>>& notes,
                 const std::function<void(std::string_view)>& write);

}  // namespace tandem
