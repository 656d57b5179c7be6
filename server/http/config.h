// The HTTP server's settings. docs/serving.md describes each.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/http/trace_context.h"

namespace tandem {
class AdapterNames;  // runtime/request/adapter_names.h
}

namespace tandem::server {

struct ServerConfig {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  int threads = 1;  // of the server; connections share them

  std::vector<std::string> model_names;   // the first one is the answer's; requests may name any
  std::vector<std::string> silent_names;  // requests may give these too; no answer shows them
  AdapterNames* adapters = nullptr;       // whose names count as models' too; null: there are none
  std::vector<std::string> api_keys;      // none: everybody may
  std::string tls_certificate;            // PEM file with the chain; empty: no TLS
  std::string tls_key;
  std::vector<std::string> allowed_origins;  // CORS; "*": all
  std::string root_path;  // "/prefix" that a proxy puts before each path; empty: none
  std::string prompt_template = "{user}";  // chat messages → the encoder's text

  // Bounds. Requests beyond them are refused with a fitting status.
  size_t max_connections = 65536;
  size_t max_header_bytes = 16 * 1024;
  size_t max_body_bytes = 4 * 1024 * 1024;
  size_t max_audio_bytes = size_t{1} << 30;    // the same, of requests with a file of sound
  size_t max_body_memory = 128 * 1024 * 1024;  // of all bodies at once, read and parsed
  size_t max_upload_disk = size_t{16} << 30;   // of the files of all requests at once
  size_t max_unsent_bytes = 4 * 1024 * 1024;   // of a stream whose client does not read
  int max_requests = 65536;                    // under way, one for each prompt; more get a 429
  int max_prompts = 65536;                     // of one HTTP request
  int max_live_sessions = 64;                  // of /v1/realtime; more get a 429

  std::chrono::milliseconds idle_timeout{75000};    // between requests of a connection
  std::chrono::milliseconds header_timeout{30000};  // for a header, and a connection's first byte
  std::chrono::milliseconds body_timeout{60000};    // and a second more per 64 KiB
  std::chrono::milliseconds write_timeout{60000};   // without any progress
  double request_timeout = 0;                       // seconds; 0: none, unless the request says so

  size_t largest_body() const { return std::max(max_body_bytes, max_audio_bytes); }

  bool access_log = true;
  TraceSampler traces;
};

}  // namespace tandem::server
