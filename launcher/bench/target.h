// The server that `tandem bench serve` asks.
#pragma once

#include <string>
#include <vector>

namespace tandem::bench {

struct Target {
  std::string base_url = "http://127.0.0.1:8000";
  std::string path;                  // of the route: "/v1/completions"
  std::vector<std::string> headers;  // "Name: value"
  std::string ca_cert;               // a file of certificates to trust; empty: the system's
  bool insecure = false;             // any certificate will do
  double timeout = 0;                // seconds that a request may take; 0: any time
};

// The address of a route: a base that ends in /v1, as OpenAI's clients write it, will do. Throws
// InputError (--base-url).
std::string url_of(const Target& target, const std::string& path);

}  // namespace tandem::bench
