// The answer to a translation that is a file: what is computed goes to whoever made this exchange.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/json.h"
#include "server/api/fields/json_body.h"
#include "server/http/http.h"

namespace tandem::server {

class FileExchange final : public Exchange {
 public:
  // Called once, on the strand of `inner`: the translated text, or the error's whole answer.
  struct Callbacks {
    std::function<void(std::string text)> done;
    std::function<void(HttpResponse error)> failed;
  };
  // background: the work goes on when the client has gone.
  FileExchange(std::shared_ptr<Exchange> inner, Callbacks callbacks, bool background)
      : inner_(std::move(inner)), callbacks_(std::move(callbacks)), background_(background) {}

  const HttpRequest& request() const override { return inner_->request(); }
  std::string take_body() override { return inner_->take_body(); }
  void respond(HttpResponse response) override {
    if (std::exchange(has_ended_, true)) return;
    if (response.status >= 400) return callbacks_.failed(std::move(response));
    Json body = json_from<Json>(response.body);
    callbacks_.done(body.at("translations").at(0).at("text").get<std::string>());
  }
  void start_stream(HttpResponse) override {}
  void start_socket(HttpResponse, OnMessage) override {}
  void hold(bool) override {}
  void end_socket(uint16_t, std::string) override {}
  void write(std::string) override {}
  void end() override {}
  void on_gone(std::function<void()> callback) override {
    if (!background_) inner_->on_gone(std::move(callback));
  }
  void on_ending(std::function<void()>) override {}
  void post(std::function<void()> f) override { inner_->post(std::move(f)); }

 private:
  const std::shared_ptr<Exchange> inner_;
  const Callbacks callbacks_;
  const bool background_;
  bool has_ended_ = false;
};

}  // namespace tandem::server
