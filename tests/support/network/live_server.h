// Clients of /v1/realtime without sockets, and what the engine hears in their windows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings/base64.h"
#include "tests/support/network/speech_server.h"

namespace tandem::test {

inline const server::Headers kUpgrade = {{"host", "here:8000"},
                                         {"connection", "keep-alive, Upgrade"},
                                         {"upgrade", "websocket"},
                                         {"sec-websocket-version", "13"},
                                         {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};

inline server::Headers with_upgrade(server::Headers more) {
  server::Headers out = kUpgrade;
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

struct LiveServer : SpeechServer {
  LiveServer() { context.speech_times = true; }

  std::shared_ptr<FakeExchange> open(const std::string& query = "",
                                     const server::Headers& more = {}) {
    return ask("GET", "/v1/realtime" + query, "", with_upgrade(more));
  }
  // The client's event; the server's answers.
  std::vector<nlohmann::json> tell(const nlohmann::json& event) { return tell_text(event.dump()); }
  std::vector<nlohmann::json> tell_text(const std::string& text) {
    exchanges.back()->say(text);
    exchanges.back()->run_posted();
    return news();
  }
  std::vector<nlohmann::json> news() {
    std::vector<nlohmann::json> out;
    for (const std::string& message : std::exchange(exchanges.back()->messages, {}))
      out.push_back(json_from<nlohmann::json>(message));
    return out;
  }
  // Sound at 24 kHz.
  std::vector<nlohmann::json> append(double seconds, int16_t value = 1000) {
    std::string bytes;
    for (int i = 0; i < static_cast<int>(seconds * 24000); ++i) {
      const int16_t sample = i % 20 < 10 ? value : static_cast<int16_t>(-value);
      bytes += static_cast<char>(sample & 255);
      bytes += static_cast<char>(sample >> 8);
    }
    return tell({{"type", "input_audio_buffer.append"}, {"audio", encode_base64(bytes)}});
  }
  std::vector<nlohmann::json> update(const nlohmann::json& input) {
    return tell({{"type", "session.update"}, {"session", {{"audio", {{"input", input}}}}}});
  }
  // The engine's answer to the last window.
  std::vector<nlohmann::json> hear(const std::string& text, double seconds = 1) {
    proto::RequestChunk chunk;
    chunk.set_language("<|de|>");
    add(chunk, 0, text, 0, seconds, true);
    chunk.set_finished(true);
    say(chunk);
    return news();
  }
};

}  // namespace tandem::test
