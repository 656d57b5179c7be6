// See client_core.h. Every number in a server's message is checked before it is used: it may be
// wrong, or come from something that only claims to be a server.
#include "client/client_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/protocol/version.h"

namespace tandem::client {
namespace {

constexpr int kMaxAskedAgain = 4;     // on one connection
constexpr double kInfoTimeout = 60;   // seconds
constexpr double kDeadlineGrace = 1;  // seconds; the server is the one to say that time is up

proto::Error make_error(const std::string& type, const std::string& message,
                        const std::string& param = {}) {
  proto::Error error;
  error.set_type(type);
  error.set_message(message);
  error.set_param(param);
  return error;
}

}  // namespace

ClientCore::ClientCore(ClientCoreConfig config, ClientOutbox& outbox)
    : config_(std::move(config)), outbox_(outbox), window_(config_.max_under_way) {}

// --- Connection ----------------------------------------------------------------------------------

void ClientCore::connected(uint64_t connection, double now) {
  connection_ = connection;
  state_ = "the server does not answer";
  received_ = consumed_ = 0;
  proto::ClientMessage hello;
  hello.mutable_hello()->set_protocol_version(kProtocolVersion);
  hello.mutable_hello()->set_name(config_.name);
  outbox_.send(std::move(hello));
  for (const auto& [query, asked] : infos_) {
    proto::ClientMessage message;
    message.mutable_get_info()->set_query(query);
    outbox_.send(std::move(message));
  }
  for (auto& [id, stream] : streams_) {
    stream.asked_again = 0;
    if (!stream.waits) ask(id, stream, now);
  }
  send_waiting(now);
}

void ClientCore::disconnected(const std::string& reason, double now) {
  if (connection_ != 0) disconnected_at_ = now;
  connection_ = 0;
  state_ = reason;
  for (auto& [id, stream] : streams_) stream.phase = Phase::kUnsent;
  tick(now);
}

void ClientCore::break_connection(const std::string& reason, double now) {
  outbox_.drop_connection(reason);
  disconnected(reason, now);
}

// Submits the stream, or resumes it where the server may know it.
void ClientCore::ask(const std::string& id, Stream& stream, double now) {
  proto::ClientMessage message;
  if (stream.known) {
    proto::ResumeRequest& resume = *message.mutable_resume();
    resume.set_request_id(id);
    stream.received.write(resume);
  } else {
    *message.mutable_submit() = *stream.submit;
    if (stream.submit->timeout() > 0)
      message.mutable_submit()->set_timeout(
          std::max(0.001, stream.opened + stream.submit->timeout() - now));
  }
  stream.last_resumed = stream.known;
  stream.known = true;
  stream.phase = Phase::kAsked;
  outbox_.send(std::move(message));
}

void ClientCore::on_message(uint64_t connection, const proto::ServerMessage& message, double now) {
  if (connection != connection_ || connection == 0) return;
  if (message.number() > 0) {
    if (message.number() <= received_) return;  // twice
    if (message.number() != received_ + 1)
      return break_connection("message " + std::to_string(received_ + 1) + " was lost", now);
    received_ = message.number();
    if (received_ - consumed_ > kMaxUnconsumed)
      return break_connection("the server does not wait for acknowledgements", now);
  }
  for (const proto::RequestChunk& chunk : message.chunks())
    if (chunk.request_id().empty() && chunk.has_error())  // about this client, not a request
      return close("protocol_error", chunk.error().message() + " (this client speaks version " +
                                         std::to_string(kProtocolVersion) + " of the protocol)");
  Delivery delivery;
  delivery.connection = connection_;
  delivery.number = message.number();
  for (const proto::RequestChunk& chunk : message.chunks())
    on_chunk(chunk, message.number() > 0, now, delivery);
  if (message.has_info()) on_info(message.info(), delivery);
  send_waiting(now);
  if (delivery.number > 0 || !delivery.streams.empty() || !delivery.infos.empty())
    outbox_.deliver(std::move(delivery));
}

void ClientCore::consumed(uint64_t connection, uint64_t number) {
  if (connection != connection_ || number == 0 || number > received_ || number <= consumed_) return;
  consumed_ = number;
  proto::ClientMessage message;
  message.mutable_acknowledge()->set_message(number);
  outbox_.send(std::move(message));
}

// --- Chunks --------------------------------------------------------------------------------------

void ClientCore::on_chunk(const proto::RequestChunk& chunk, bool numbered, double now,
                          Delivery& delivery) {
  const auto it = streams_.find(chunk.request_id());
  if (it == streams_.end()) return;  // cancelled meanwhile, or never ours
  Stream& stream = it->second;
  if (chunk.has_error() && (ask_again(it->first, stream, chunk.error(), now) ||
                            wait_again(it->first, stream, chunk.error(), now)))
    return;
  proto::RequestChunk news = chunk;
  std::string wrong = stream.received.take_news(news);
  if (wrong.empty() && !numbered && !chunk.finished() && !chunk.has_error())
    wrong = "a chunk without a number";
  if (!wrong.empty()) {
    send_cancel(it->first);
    fail(it, make_error("protocol_error", "request \"" + it->first + "\": " + wrong), delivery);
    return;
  }
  stream.phase = Phase::kReceiving;
  stream.submit.reset();
  StreamNews out;
  out.stream = stream.key;
  out.finished = chunk.finished() || chunk.has_error();
  if (chunk.has_error()) {
    out.error = chunk.error();
    if (out.error->type().empty()) out.error->set_type("internal_error");
  }
  out.chunk = std::move(news);
  delivery.streams.push_back(std::move(out));
  if (!delivery.streams.back().error) window_.took(delivery.streams.back().finished);
  if (delivery.streams.back().finished) erase(it);
}

// A submission may have been lost with its connection (or the server is another one now): resuming
// finds nothing. Or it comes late, by the old connection, and is in the way of the second one.
bool ClientCore::ask_again(const std::string& id, Stream& stream, const proto::Error& error,
                           double now) {
  if (stream.phase != Phase::kAsked || !stream.submit || stream.asked_again >= kMaxAskedAgain)
    return false;
  const bool resumed = stream.last_resumed;
  if (!(resumed && error.type() == "not_found_error") &&
      !(!resumed && stream.asked_again > 0 && error.param() == "request_id"))
    return false;
  ++stream.asked_again;
  stream.known = !resumed;
  ask(id, stream, now);
  return true;
}

// Refused for now. What cannot be done within its own deadline is not: its client is told.
bool ClientCore::wait_again(const std::string& id, Stream& stream, const proto::Error& error,
                            double now) {
  if (!config_.retry_refused || error.type() != "overloaded_error" || !error.param().empty() ||
      stream.phase != Phase::kAsked || !stream.submit || stream.last_resumed)
    return false;
  stream.known = false;
  stream.phase = Phase::kUnsent;
  stream.waits = true;
  waiting_.emplace(stream.key, id);
  window_.refused(streams_.size() - waiting_.size(), error.retry_after(), now);
  return true;
}

void ClientCore::send_waiting(double now) {
  if (!is_connected()) return;
  while (!waiting_.empty() && window_.has_room(streams_.size() - waiting_.size(), now)) {
    const std::string id = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    Stream& stream = streams_.at(id);
    stream.waits = false;
    ask(id, stream, now);
  }
}

void ClientCore::on_info(const proto::ServerInfo& info, Delivery& delivery) {
  const auto it = infos_.find(info.query());
  if (it == infos_.end()) return;
  infos_.erase(it);
  InfoNews news;
  news.query = info.query();
  news.info = info;
  if (info.protocol_version() != kProtocolVersion)
    news.error =
        make_error("protocol_error", version_mismatch("server", info.protocol_version(), "client"),
                   "protocol_version");
  delivery.infos.push_back(std::move(news));
}

// --- User ----------------------------------------------------------------------------------------

void ClientCore::open(StreamKey key, const std::string& id, Stream stream, double now) {
  Delivery delivery;
  StreamNews news;
  news.stream = key;
  news.finished = true;
  if (closed_) {
    news.error = closed_;
  } else if (streams_.count(id) > 0) {
    news.error = make_error("invalid_request_error", "request_id: \"" + id + "\" is open here",
                            "request_id");
  } else {
    stream.key = key;
    stream.opened = now;
    ids_[key] = id;
    Stream& added = streams_[id] = std::move(stream);
    // Behind those that wait; whoever resumes is at the server already.
    added.waits = !added.known;
    if (added.waits) waiting_.emplace(key, id);
    if (!is_connected()) {
      tick(now);
    } else if (added.waits) {
      send_waiting(now);
    } else {
      ask(id, added, now);
    }
    return;
  }
  delivery.streams.push_back(std::move(news));
  outbox_.deliver(std::move(delivery));
}

void ClientCore::submit(StreamKey key, proto::SubmitRequest request, double now) {
  Stream stream;
  const std::string id = request.request_id();
  stream.submit = std::move(request);
  open(key, id, std::move(stream), now);
}

void ClientCore::resume(StreamKey key, const std::string& request_id, double now) {
  Stream stream;
  stream.known = true;
  open(key, request_id, std::move(stream), now);
}

void ClientCore::cancel(StreamKey key) {
  const auto id = ids_.find(key);
  if (id == ids_.end()) return;
  const auto it = streams_.find(id->second);
  if (it->second.known) send_cancel(it->first);
  Delivery delivery;
  fail(it, make_error("cancelled", "the request was cancelled"), delivery);
  outbox_.deliver(std::move(delivery));
}

// Without a connection the server gives the request up by itself: nobody resumes it.
void ClientCore::send_cancel(const std::string& id) {
  if (!is_connected()) return;
  proto::ClientMessage message;
  message.mutable_cancel()->set_request_id(id);
  outbox_.send(std::move(message));
}

void ClientCore::query_info(uint64_t query, double now) {
  if (closed_) {
    Delivery delivery;
    InfoNews news;
    news.query = query;
    news.error = closed_;
    delivery.infos.push_back(std::move(news));
    return outbox_.deliver(std::move(delivery));
  }
  infos_[query] = now;
  if (is_connected()) {
    proto::ClientMessage message;
    message.mutable_get_info()->set_query(query);
    outbox_.send(std::move(message));
  } else {
    tick(now);
  }
}

void ClientCore::close(const std::string& type, const std::string& message) {
  if (closed_) return;
  closed_ = make_error(type, message);
  Delivery delivery;
  while (!streams_.empty()) fail(streams_.begin(), *closed_, delivery);
  for (const auto& [query, asked] : infos_) delivery.infos.push_back({query, {}, closed_});
  infos_.clear();
  connection_ = 0;
  if (!delivery.streams.empty() || !delivery.infos.empty()) outbox_.deliver(std::move(delivery));
}

void ClientCore::fail(Streams::iterator it, proto::Error error, Delivery& delivery) {
  StreamNews news;
  news.stream = it->second.key;
  news.finished = true;
  news.error = std::move(error);
  delivery.streams.push_back(std::move(news));
  erase(it);
}

void ClientCore::erase(Streams::iterator it) {
  if (it->second.waits) waiting_.erase({it->second.key, it->first});
  ids_.erase(it->second.key);
  streams_.erase(it);
}

// --- Time ----------------------------------------------------------------------------------------

void ClientCore::tick(double now) {
  Delivery delivery;
  while (!infos_.empty() && now >= infos_.begin()->second + kInfoTimeout) {  // oldest first
    delivery.infos.push_back(
        {infos_.begin()->first, {}, make_error("timeout_error", "the server does not answer")});
    infos_.erase(infos_.begin());
  }
  if (is_connected())
    fail_late(now, delivery);
  else
    fail_lost(now, delivery);
  send_waiting(now);
  if (!delivery.streams.empty() || !delivery.infos.empty()) outbox_.deliver(std::move(delivery));
}

// Those that wait here: the server does not know of their deadlines.
void ClientCore::fail_late(double now, Delivery& delivery) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto stream = streams_.find((it++)->second);  // fail() erases
    const double timeout = stream->second.submit->timeout();
    if (timeout > 0 && now >= stream->second.opened + timeout)
      fail(stream,
           make_error("timeout_error", "timeout: the request's deadline has passed", "timeout"),
           delivery);
  }
}

void ClientCore::check_integrity() const {
  size_t waiting = 0;
  for (const auto& [id, stream] : streams_) {
    waiting += stream.waits ? 1 : 0;
    TANDEM_CHECK_EQ(waiting_.count({stream.key, id}) > 0, stream.waits);
    TANDEM_CHECK(!stream.waits || (stream.submit && !stream.known));
    TANDEM_CHECK(ids_.at(stream.key) == id);
  }
  TANDEM_CHECK_EQ(waiting, waiting_.size());
  TANDEM_CHECK_EQ(ids_.size(), streams_.size());
}

void ClientCore::fail_lost(double now, Delivery& delivery) {
  const auto lost = [&](double since) {
    return now >= std::max(since, disconnected_at_) + config_.reconnect_timeout;
  };
  const proto::Error error = make_error("connection_error", "no server: " + state_);
  for (auto it = streams_.begin(); it != streams_.end();) {
    const auto next = std::next(it);
    const Stream& stream = it->second;
    if (lost(stream.opened)) {
      fail(it, error, delivery);
    } else if (stream.submit && stream.submit->timeout() > 0 &&
               now >= stream.opened + stream.submit->timeout() + kDeadlineGrace) {
      fail(it, make_error("timeout_error", "timeout: the request's deadline has passed", "timeout"),
           delivery);
    }
    it = next;
  }
  for (auto it = infos_.begin(); it != infos_.end();) {
    if (lost(it->second)) {
      delivery.infos.push_back({it->first, {}, error});
      it = infos_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace tandem::client
