// Receives one request from a channel, within bounds of size and time. The header decides whether
// the request is admitted; only then its body is read.
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "server/http/connections/channel.h"
#include "server/http/http.h"
#include "server/http/request_gate.h"
#include "server/http/request_reader.h"

namespace tandem::server {

// A request, once it is there; or as far as it was read before it was refused.
struct ReceivedRequest {
  HttpRequest request;
  std::optional<HttpResponse> refusal;  // the answer, without asking the application
  int version = 11;
  bool keep_alive = false;  // the client takes a further answer, and nothing is in its way
};

class RequestReception {
 public:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  // Reads so much of a header, and of a body, at once.
  static constexpr size_t kHeaderRead = 4096, kBodyRead = 16384;

  // files: where writing to a disk may block. All of them outlive the reception.
  RequestReception(Channel& channel, const RequestGate& gate, boost::asio::thread_pool& files)
      : channel_(channel), gate_(gate), files_(files), reader_(channel.config()) {}

  // Once. crowded: there are too many connections. on_body is called when a body is to be read.
  // Nothing: there is no request, or nobody to be answered. Invalid HTTP has its answer already.
  Awaitable<std::optional<ReceivedRequest>> receive(bool crowded, std::function<void()> on_body);

 private:
  using ErrorCode = boost::system::error_code;

  Awaitable<ErrorCode> read_header();
  Awaitable<void> read_body(ReceivedRequest& received);
  Awaitable<ErrorCode> read_rest();
  Awaitable<void> write_file();
  Awaitable<void> refuse(Refusal refusal);

  Channel& channel_;
  const RequestGate& gate_;
  boost::asio::thread_pool& files_;
  RequestReader reader_;
  std::unique_ptr<RequestBody> body_;  // on its way; null: there is none, or nobody wants it
};

}  // namespace tandem::server
