// See client_core.h. Every number in a server's message is checked before it is used: it may be
// wrong, or come from something that only claims to be a server.
#include "client/client_core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/protocol/version.h"

namespace tandem::client {
namespace {

constexpr int kMaxAskedAgain = 4;  // on one connection
constexpr size_t kMaxSequences = 65536;
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
    : config_(std::move(config)), outbox_(outbox) {}

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
    ask(id, stream, now);
  }
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
    for (const auto& [index, position] : stream.positions) {
      proto::StreamPosition& p = *resume.add_received();
      p.set_index(index);
      p.set_num_tokens(position.num_tokens);
      p.set_text_bytes(position.text_bytes);
    }
    resume.set_num_prompt_logprobs(stream.num_prompt_logprobs);
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
  if (chunk.has_error() && ask_again(it->first, stream, chunk.error(), now)) return;
  proto::RequestChunk news = chunk;
  std::string wrong = take_news(stream, news);
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
  if (delivery.streams.back().finished) {
    ids_.erase(stream.key);
    streams_.erase(it);
  }
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

std::string ClientCore::take_news(Stream& stream, proto::RequestChunk& chunk) {
  for (proto::CompletionChunk& output : *chunk.mutable_outputs()) {
    std::string wrong = take_news(stream, output);
    if (!wrong.empty()) return "sequence " + std::to_string(output.index()) + ": " + wrong;
  }
  const int have = stream.num_prompt_logprobs;
  const int count = chunk.prompt_logprobs_size();
  if (chunk.prompt_logprobs_offset() < 0) return "a negative offset";
  if (count > std::numeric_limits<int>::max() - have) return "too many prompt logprobs";
  if (count > 0 && chunk.prompt_logprobs_offset() > have)
    return "prompt logprobs from " + std::to_string(chunk.prompt_logprobs_offset()) + " on after " +
           std::to_string(have);
  const int known = std::clamp(have - chunk.prompt_logprobs_offset(), 0, count);
  chunk.mutable_prompt_logprobs()->DeleteSubrange(0, known);
  chunk.set_prompt_logprobs_offset(have);
  stream.num_prompt_logprobs += count - known;
  return {};
}

std::string ClientCore::take_news(Stream& stream, proto::CompletionChunk& chunk) {
  if (chunk.index() < 0) return "a negative index";
  if (stream.positions.size() >= kMaxSequences) return "too many sequences";
  Position& have = stream.positions[chunk.index()];
  const int num_tokens = chunk.token_ids_size();
  const auto text_bytes = static_cast<int64_t>(chunk.text().size());
  if (chunk.token_offset() < 0 || chunk.text_offset() < 0) return "a negative offset";
  if (num_tokens > std::numeric_limits<int>::max() - have.num_tokens) return "too many tokens";
  if (chunk.token_offset() > have.num_tokens)
    return "tokens from " + std::to_string(chunk.token_offset()) + " on after " +
           std::to_string(have.num_tokens);
  if (chunk.text_offset() > have.text_bytes)
    return "text from byte " + std::to_string(chunk.text_offset()) + " on after " +
           std::to_string(have.text_bytes);
  if (chunk.logprobs_size() != 0 && chunk.logprobs_size() != num_tokens)
    return std::to_string(chunk.logprobs_size()) + " logprobs for " + std::to_string(num_tokens) +
           " tokens";
  const int num_segments = chunk.segments_size();
  if (chunk.segment_offset() < 0) return "a negative offset";
  if (num_segments > std::numeric_limits<int>::max() - have.num_segments)
    return "too many segments";
  if (chunk.segment_offset() > have.num_segments)
    return "segments from " + std::to_string(chunk.segment_offset()) + " on after " +
           std::to_string(have.num_segments);
  const int known_tokens = std::min(have.num_tokens - chunk.token_offset(), num_tokens);
  if (known_tokens > 0) {
    chunk.mutable_token_ids()->ExtractSubrange(0, known_tokens, nullptr);
    if (chunk.logprobs_size() > 0) chunk.mutable_logprobs()->DeleteSubrange(0, known_tokens);
  }
  const int64_t known_text = std::min(have.text_bytes - chunk.text_offset(), text_bytes);
  if (known_text > 0) chunk.mutable_text()->erase(0, static_cast<size_t>(known_text));
  const int known_segments = std::min(have.num_segments - chunk.segment_offset(), num_segments);
  chunk.mutable_segments()->DeleteSubrange(0, known_segments);
  chunk.set_segment_offset(have.num_segments);
  chunk.set_token_offset(have.num_tokens);
  chunk.set_text_offset(have.text_bytes);
  have.num_tokens += num_tokens - known_tokens;
  have.text_bytes += text_bytes - known_text;
  have.num_segments += num_segments - known_segments;
  return {};
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
    if (is_connected()) {
      ask(id, added, now);
    } else {
      tick(now);
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
  if (!is_connected()) fail_lost(now, delivery);
  if (!delivery.streams.empty() || !delivery.infos.empty()) outbox_.deliver(std::move(delivery));
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
