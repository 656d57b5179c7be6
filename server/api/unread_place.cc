#include "server/api/unread_place.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tandem::server {
namespace {

// Parsing a larger one is little beside computing it, and its size says more about its work.
constexpr size_t kMostBytes = 16 * 1024;

std::string unique_id(const std::string& name) {
  static std::atomic<uint64_t> serial{0};
  return name + "-unread-" + std::to_string(serial++);
}

}  // namespace

bool may_wait_unread(const HttpRequest& request, const Route& route, const ServerConfig& config) {
  const std::string& body = request.body;
  if (request.method != "POST" || route.key_in_body || config.request_timeout > 0) return false;
  if (body.size() > kMostBytes || request.form != nullptr) return false;
  const size_t begin = body.find_first_not_of(" \t\r\n");
  if (begin == body.npos || body[begin] != '{') return false;
  // Names of fields may be escaped too: \u0061 … \u007a are their letters.
  for (const char* name : {"priority", "timeout", "request_id", "\\u006", "\\u007"})
    if (body.find(name) != body.npos) return false;
  return true;
}

UnreadPlace::UnreadPlace(AppContext& app, const std::string& name)
    : app_(app), id_(unique_id(name)) {}

bool UnreadPlace::enter(std::function<void()> on_turn) {
  if (!app_.engine.enter_unread(id_, std::move(on_turn))) return false;
  state_ = State::kWaits;
  app_.note_unread(1);
  return true;
}

void UnreadPlace::leave() {
  if (state_ == State::kWaits) {
    app_.engine.leave_unread(id_);
    app_.note_unread(-1);
  }
  if (state_ != State::kTaken) state_ = State::kLeft;
}

std::string UnreadPlace::take() {
  if (state_ != State::kWaits) return {};
  state_ = State::kTaken;
  app_.note_unread(-1);
  return id_;
}

}  // namespace tandem::server
