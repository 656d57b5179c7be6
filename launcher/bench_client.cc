// co_await stands alone or behind `=` only: see server/connection.cc.
#include "launcher/bench_client.h"

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "kernels/core/error.h"

namespace tandem::launcher {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

auto into(error_code& ec) { return asio::redirect_error(asio::use_awaitable, ec); }

http::request<http::string_body> request_for(const BenchTarget& target, http::verb verb,
                                             const std::string& path) {
  http::request<http::string_body> r{verb, path, 11};
  r.set(http::field::host, target.host + ":" + target.port);
  r.set(http::field::connection, "close");
  if (!target.api_key.empty()) r.set(http::field::authorization, "Bearer " + target.api_key);
  return r;
}

class Load {
 public:
  Load(const BenchTarget& target, const std::vector<BenchJob>& jobs, int max_concurrency,
       const std::function<void(size_t, size_t)>& progress)
      : target_(target),
        jobs_(jobs),
        most_(max_concurrency),
        progress_(progress),
        wake_(io_),
        results_(jobs.size()) {}

  std::vector<BenchRequest> run() {
    tcp::resolver resolver(io_);
    error_code ec;
    endpoints_ = resolver.resolve(target_.host, target_.port, ec);
    if (ec) throw invalid_request("--base-url", target_.host + ": " + ec.message());
    begun_ = Clock::now();
    asio::co_spawn(
        io_, [this] { return send_all(); }, asio::detached);
    io_.run();
    return std::move(results_);
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  asio::awaitable<void> send_all() {
    asio::steady_timer timer(io_);
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].arrival > now()) {
        timer.expires_at(begun_ + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(jobs_[i].arrival)));
        error_code ignored;
        co_await timer.async_wait(into(ignored));
      }
      while (most_ > 0 && under_way_ >= most_) {
        wake_.expires_at(Clock::time_point::max());
        error_code ignored;
        co_await wake_.async_wait(into(ignored));
      }
      ++under_way_;
      asio::co_spawn(
          io_, [this, i] { return one(i); }, asio::detached);
    }
  }

  asio::awaitable<void> one(size_t i) {
    BenchRequest& r = results_[i];
    r.sent = now();
    std::string error;
    try {
      error = co_await ask(jobs_[i].body, r);
    } catch (const std::exception& e) {
      error = e.what();
    }
    r.last = std::max(r.last, r.sent);
    if (error.empty() && r.first < 0) error = "no token came";
    if (!error.empty()) r.last = now();
    r.ok = error.empty();
    r.error = error;
    --under_way_;
    ++done_;
    failed_ += !r.ok;
    progress_(done_, failed_);
    wake_.cancel();
  }

  // What went wrong, or nothing.
  asio::awaitable<std::string> ask(const std::string& body, BenchRequest& r) {
    tcp::socket socket(io_);
    error_code ec;
    co_await asio::async_connect(socket, endpoints_, into(ec));
    if (ec) co_return "connect: " + ec.message();
    socket.set_option(tcp::no_delay(true), ec);
    auto message = request_for(target_, http::verb::post, target_.path);
    message.set(http::field::content_type, "application/json");
    message.body() = body;
    message.prepare_payload();
    co_await http::async_write(socket, message, into(ec));
    if (ec) co_return "write: " + ec.message();

    boost::beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(uint64_t{1} << 40);  // Boost 1.74 does not take "none"
    co_await http::async_read_header(socket, buffer, parser, into(ec));
    if (ec) co_return "read: " + ec.message();
    const unsigned status = parser.get().result_int();
    std::string text;
    bool finished = false;
    while (!parser.is_done()) {
      char piece[8192];
      parser.get().body().data = piece;
      parser.get().body().size = sizeof piece;
      co_await http::async_read(socket, buffer, parser, into(ec));
      if (ec && ec != http::error::need_buffer) co_return "read: " + ec.message();
      text.append(piece, sizeof piece - parser.get().body().size);
      if (status == 200) {
        std::string error = take_events(text, r, finished);
        if (!error.empty()) co_return error;
      }
    }
    if (status != 200) co_return "HTTP " + std::to_string(status);
    if (!finished) co_return "the stream broke off";
    co_return std::string();
  }

  // Removes whole events from the front.
  std::string take_events(std::string& text, BenchRequest& r, bool& finished) {
    size_t end;
    while ((end = text.find("\n\n")) != std::string::npos) {
      const std::string event = text.substr(0, end);
      text.erase(0, end + 2);
      if (event.rfind("data:", 0) != 0) continue;  // a comment
      const std::string data = event.substr(event.find_first_not_of(' ', 5));
      if (data == "[DONE]") {
        finished = true;
        continue;
      }
      const auto json = nlohmann::json::parse(data, nullptr, false);
      if (!json.is_object()) return "an event is not JSON";
      if (json.contains("error")) return "error event: " + json["error"].value("type", "");
      if (json.contains("usage") && json["usage"].is_object()) {
        r.input_tokens = json["usage"].value("prompt_tokens", 0);
        r.output_tokens = json["usage"].value("completion_tokens", 0);
      }
      const auto choices = json.find("choices");
      if (choices == json.end() || choices->empty()) continue;
      const double time = now();
      if (r.first < 0)
        r.first = time;
      else
        r.gaps.push_back(time - r.last);
      r.last = time;
    }
    return {};
  }

  const BenchTarget& target_;
  const std::vector<BenchJob>& jobs_;
  const int most_;
  const std::function<void(size_t, size_t)>& progress_;
  asio::io_context io_;
  asio::steady_timer wake_;
  tcp::resolver::results_type endpoints_;
  std::vector<BenchRequest> results_;
  Clock::time_point begun_;
  int under_way_ = 0;
  size_t done_ = 0, failed_ = 0;
};

}  // namespace

BenchTarget parse_base_url(const std::string& url) {
  BenchTarget target;
  const std::string scheme = "http://";
  if (url.rfind(scheme, 0) != 0)
    throw invalid_request("--base-url", "\"" + url + "\" does not begin with http://");
  std::string rest = url.substr(scheme.size());
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  target.host = has_port ? rest.substr(0, colon) : rest;
  target.port = has_port ? rest.substr(colon + 1) : "80";
  if (target.host.size() > 2 && target.host.front() == '[')
    target.host = target.host.substr(1, target.host.size() - 2);
  if (target.host.empty() || target.host.find('/') != std::string::npos || target.port.empty() ||
      target.port.find_first_not_of("0123456789") != std::string::npos)
    throw invalid_request("--base-url", "\"" + url + "\" is not http://HOST:PORT");
  return target;
}

std::vector<BenchRequest> run_load(const BenchTarget& target, const std::vector<BenchJob>& jobs,
                                   int max_concurrency,
                                   const std::function<void(size_t, size_t)>& progress) {
  return Load(target, jobs, max_concurrency, progress).run();
}

std::string http_get(const BenchTarget& target, const std::string& path) {
  const std::string where = "http://" + target.host + ":" + target.port + path;
  try {
    asio::io_context io;
    tcp::resolver resolver(io);
    tcp::socket socket(io);
    asio::connect(socket, resolver.resolve(target.host, target.port));
    http::write(socket, request_for(target, http::verb::get, path));
    boost::beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(socket, buffer, response);
    if (response.result_int() != 200)
      throw invalid_request("--base-url",
                            where + " answers " + std::to_string(response.result_int()));
    return response.body();
  } catch (const boost::system::system_error& e) {
    throw invalid_request("--base-url", where + ": " + e.code().message());
  }
}

}  // namespace tandem::launcher
