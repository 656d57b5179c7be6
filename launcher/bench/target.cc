#include "launcher/bench/target.h"

#include "base/error.h"
#include "launcher/curl.h"

namespace tandem::bench {

std::string url_of(const Target& target, const std::string& path) {
  const CurlUrl url(curl_url());
  std::string base = target.base_url;
  while (!base.empty() && base.back() == '/') base.pop_back();
  const bool parses =
      curl_url_set(url.get(), CURLUPART_URL, base.c_str(), CURLU_DISALLOW_USER) == CURLUE_OK;
  const std::string scheme = part_of(url, CURLUPART_SCHEME);
  if (!parses || (scheme != "http" && scheme != "https") ||
      !part_of(url, CURLUPART_QUERY).empty() || !part_of(url, CURLUPART_FRAGMENT).empty())
    throw invalid_request("--base-url",
                          "\"" + target.base_url + "\" is not http[s]://HOST[:PORT][/PATH]");
  if (path.empty() || path[0] != '/')
    throw invalid_request("--endpoint", "\"" + path + "\" does not begin with /");
  const std::string version = "/v1";
  if (base.size() > version.size() &&
      base.compare(base.size() - version.size(), version.size(), version) == 0 &&
      path.compare(0, version.size() + 1, version + "/") == 0)
    base.resize(base.size() - version.size());
  return base + path;
}

}  // namespace tandem::bench
