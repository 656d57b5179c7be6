// See answer_sender.h, and channel.cc for the rule of co_await.
#include "server/http/connections/answer_sender.h"

#include <string>

#include "server/http/response_header.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;

// An event that means nothing: every stream is of server-sent events.
constexpr const char* kSilentEvent = ":\n\n";

}  // namespace

asio::awaitable<bool> AnswerSender::wait_for_head() {
  while (!exchange_.head && !channel_.gone()) {
    if (channel_.input().probe_due() && exchange_.sent_ahead == 0) {
      // Every answer begins so. A client that has gone replies with a reset, which ends the wait.
      exchange_.sent_ahead = kFirstBytes.size();
      co_await channel_.send(std::string(kFirstBytes));
    } else {
      co_await channel_.wait();
    }
  }
  const ConnectionInput& input = channel_.input();
  if (channel_.draining() || (input.ended() && input.size() == 0)) keep_alive_ = false;
  co_return !channel_.gone();
}

asio::awaitable<bool> AnswerSender::send() {
  bool complete;
  if (exchange_.streaming)
    complete = co_await send_stream();
  else
    complete = co_await send_whole();
  co_return complete;
}

asio::awaitable<bool> AnswerSender::send_whole() {
  const HttpResponse& head = *exchange_.head;
  std::string text = answer_text(head, exchange_.request(), exchange_.version, keep_alive_);
  text.erase(0, exchange_.sent_ahead);
  if (exchange_.request().method != "HEAD") exchange_.bytes_sent = head.body.size();
  const bool sent = co_await channel_.send(std::move(text));
  co_return sent;
}

asio::awaitable<bool> AnswerSender::send_stream() {
  const bool chunked = exchange_.version >= 11;
  if (!chunked) keep_alive_ = false;
  bool probed = exchange_.sent_ahead > 0;
  std::string text =
      header_text(*exchange_.head, exchange_.request(), exchange_.version, keep_alive_, true);
  text.erase(0, exchange_.sent_ahead);
  for (;;) {
    exchange_.bytes_sent += exchange_.unsent.size();
    text += exchange_.take_unsent(chunked);
    const bool last = exchange_.ended;
    if (last && chunked) text += "0\r\n\r\n";
    if (!text.empty()) {
      const bool sent = co_await channel_.send(std::exchange(text, {}));
      if (!sent) co_return false;
    }
    if (last) co_return true;
    while (exchange_.unsent.empty() && !exchange_.ended && !channel_.gone()) {
      if (channel_.input().probe_due() && !std::exchange(probed, true))
        exchange_.unsent = kSilentEvent;
      else
        co_await channel_.wait();
    }
    if (channel_.gone()) co_return false;
  }
}

}  // namespace tandem::server
