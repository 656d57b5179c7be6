// One client of /v1/realtime: its events in, the server's out, and windows of its sound to the
// engine as ordinary requests. On the strand of its connection.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/media/sound/live/live_request.h"
#include "runtime/media/sound/live/live_transcriber.h"
#include "server/api/application.h"
#include "server/api/fields/json_body.h"
#include "server/api/live/realtime_settings.h"

namespace tandem::server {

// A session's place among those that the server takes.
class LiveSlot {
 public:
  // Null: there is none.
  static std::unique_ptr<LiveSlot> take(AppContext& app);
  explicit LiveSlot(AppContext& app) : app_(app) {}
  LiveSlot(const LiveSlot&) = delete;
  ~LiveSlot() { --app_.live_sessions; }

 private:
  AppContext& app_;
};

class RealtimeSession final : public std::enable_shared_from_this<RealtimeSession> {
 public:
  // Sound that waits to be transcribed. With more, the client's messages wait.
  static constexpr double kMostSeconds = 60;

  RealtimeSession(AppContext& app, std::shared_ptr<Exchange> exchange, RealtimeSettings settings,
                  std::unique_ptr<LiveSlot> slot);
  // Once. before: in the shape that OpenAI had before.
  void start(bool before);
  // A message of the client's.
  void receive(const std::string& text);

 private:
  void handle(nlohmann::json event);
  void update(nlohmann::json event, bool before);
  void append(nlohmann::json event);
  void commit(const nlohmann::json& event);
  void make_live();
  void pump();
  bool has_turn();
  void tell(const LiveEvent& event);
  void tell_committed(int64_t item);
  void submit(LiveWindow window);
  void take(int number, const proto::RequestChunk& chunk);
  void report();
  void end();
  void gone();
  void send(const char* type, Json fields);
  void send_error(const proto::Error& error, const std::string& event_id);
  std::string item_id(int64_t item) const;

  struct UnderWay {
    int number = 0;
    std::string id;
    LiveAnswer answer;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  };

  AppContext& app_;
  const std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<LiveSlot> slot_;
  const std::string id_;
  RealtimeSettings settings_;
  std::optional<LiveTranscriber> live_;
  std::optional<UnderWay> under_way_;
  std::unique_ptr<LiveTurns::Turn> turn_;  // of the window that is under way, or due
  bool before_ = false;                    // in the shape that OpenAI had before
  bool has_sound_ = false;
  bool ending_ = false;  // no more sound is taken; the socket ends with the last text
  bool ended_ = false;
  uint64_t events_ = 0;
};

}  // namespace tandem::server
