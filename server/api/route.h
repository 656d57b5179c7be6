// A route of the server: method, path, handler, and its part of the OpenAPI document.
#pragma once

#include <memory>
#include <string_view>

#include "server/api/application.h"
#include "server/http/http.h"

namespace tandem::server {

// Answers, now or later. An InputError becomes an error answer.
using Handler = void (*)(AppContext& app, const std::shared_ptr<Exchange>& exchange);

// Names of schemas (schemas/*.json) for the OpenAPI document; null: there is no such thing.
struct RouteSchemas {
  const char* request = nullptr;  // of the body
  const char* answer = nullptr;   // of an answer that is JSON
  const char* event = nullptr;    // of the data of a stream's events
  const char* error = "Error";
  const char* other_types = "";  // of answers that are not JSON: "text/plain text/vtt"
  bool form = false;             // the body may be application/x-www-form-urlencoded
};

struct Route {
  const char* method;
  // {model} and {file}, a last part, are any text, slashes included; {id} is one part.
  std::string_view path;
  Handler handler;
  enum class Kind {
    kOpen,      // needs no key
    kAnswers,   // this process knows the answer
    kComputes,  // the engine has work with it
    kHears,     // the same, with a form that has a file of sound
    kMayHear,   // of a speech model: the file itself, such a form, or JSON; else JSON
    kReads,     // the same, with a form that has a document
    kLive,      // a WebSocket of sound
  };
  Kind kind;
  const char* summary;
  RouteSchemas schemas;
  bool key_in_body = false;  // the handler checks it (require_key()), a header's or the body's

  bool open() const { return kind == Kind::kOpen; }
  bool hears() const { return kind == Kind::kHears; }
  bool has_form() const { return hears() || kind == Kind::kReads; }
  bool live() const { return kind == Kind::kLive; }
  bool needs_speech() const { return hears() || live(); }
  bool computes() const {
    return kind == Kind::kComputes || kind == Kind::kMayHear || live() || has_form();
  }
  bool matches(std::string_view request) const;
};

}  // namespace tandem::server
