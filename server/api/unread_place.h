// A request's place in the engine's line before its body has been parsed (docs/serving.md,
// "Overload"). On the strand of the request's connection.
#pragma once

#include <functional>
#include <string>

#include "server/api/application.h"
#include "server/api/route.h"
#include "server/http/config.h"
#include "server/http/http.h"

namespace tandem::server {

// Whether nothing in the request can change its place: it is a small JSON object that names neither
// a priority, a timeout nor an id, and needs no answer from its handler before.
bool may_wait_unread(const HttpRequest& request, const Route& route, const ServerConfig& config);

class UnreadPlace {
 public:
  // name: the beginning of its id. `app` outlives it.
  UnreadPlace(AppContext& app, const std::string& name);
  ~UnreadPlace() { leave(); }
  UnreadPlace(const UnreadPlace&) = delete;
  UnreadPlace& operator=(const UnreadPlace&) = delete;

  // As EngineApi::enter_unread(). Once.
  bool enter(std::function<void()> on_turn);
  // The client has gone, or the request turned out to need no place.
  void leave();
  bool left() const { return state_ == State::kLeft; }
  // Its id, which is submitted; empty: it has no place.
  std::string take();

 private:
  enum class State { kOutside, kWaits, kTaken, kLeft };

  AppContext& app_;
  const std::string id_;
  State state_ = State::kOutside;
};

}  // namespace tandem::server
