// One file from the hub into the cache: resumed, tried again, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "launcher/hub/cache.h"
#include "launcher/hub/http_client.h"

namespace tandem::hub {

struct RemoteFile {
  std::string name;
  std::string url;
  std::string etag;  // plain; the name of its blob
  uint64_t size = 0;
};

// An answer that is neither 2xx nor passing trouble.
struct StatusError {
  Response response;
};

// have: bytes of the file that there are; fresh: bytes that this download brought.
using OnProgress = std::function<void(uint64_t have, uint64_t fresh)>;

// To the blob `target`, by way of <target>.incomplete, where an earlier download may have come to
// an end too soon. The caller holds the lock. Throws InputError, ConnectionError, StatusError,
// Interrupted.
void download(HttpClient& http, const RemoteFile& file, const std::filesystem::path& target,
              const Hooks& hooks, const OnProgress& progress);

}  // namespace tandem::hub
