#include "server/api/route.h"

#include <algorithm>

namespace tandem::server {

bool Route::matches(std::string_view request) const {
  std::string_view pattern = path;
  while (true) {
    const size_t brace = pattern.find('{');
    if (brace == pattern.npos) return request == pattern;
    if (request.size() <= brace || request.substr(0, brace) != pattern.substr(0, brace))
      return false;
    if (pattern.substr(brace) != "{id}" && pattern.ends_with('}') &&
        pattern.find('{', brace + 1) == pattern.npos)
      return true;  // the rest, slashes included
    request.remove_prefix(brace);
    const size_t end = std::min(request.find('/'), request.size());
    if (end == 0) return false;
    request.remove_prefix(end);
    pattern.remove_prefix(pattern.find('}', brace) + 1);
  }
}

}  // namespace tandem::server
