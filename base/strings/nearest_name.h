// The name that a misspelt one stands for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// The candidate that `name` is most likely a misspelling of, if any is close.
std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates);
// " (did you mean X?)", or nothing.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tandem
