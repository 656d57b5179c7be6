// Requests and clients (engine_core.h); replicas are in engine_core_replicas.cc.
//
// An entry lives from reserve() until its last chunk is acknowledged (or its client has been gone
// for too long). While it is unfinished it is in exactly one phase: being prepared, held (in
// held_), running (in its replica's table), or a suspect (in its replica's line of them).

#include "runtime/engine/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

InputError not_found(const std::string& id) {
  return InputError(ErrorKind::kNotFound, "request_id: there is no request \"" + id + "\"",
                    "request_id");
}

InputError deadline_passed() {
  return InputError(ErrorKind::kTimeout, "timeout: the request's deadline has passed", "timeout");
}

}  // namespace

EngineCore::EngineCore(const EngineCoreConfig& config, const Tokenizer& tokenizer,
                       EngineOutbox& outbox)
    : config_(config),
      admission_(config.admission),
      tokenizer_(tokenizer),
      outbox_(outbox),
      replicas_(static_cast<size_t>(config.num_replicas)) {
  TANDEM_CHECK_GT(config.num_replicas, 0);
}

// --- Clients -------------------------------------------------------------------------------------

void EngineCore::client_connected(ClientId client, bool acknowledges) {
  TANDEM_CHECK(clients_.emplace(client, ClientWindow(acknowledges)).second,
               "client ids are used once");
}

void EngineCore::client_gone(ClientId client, double now) {
  const auto it = clients_.find(client);
  if (it == clients_.end()) return;
  for (const std::string& id : it->second.requests) {
    Entry& entry = entries_.at(id);
    entry.client.reset();
    entry.client_lost = now;
    if (entry.phase == Phase::kDone) retained_.push_back(id);
  }
  clients_.erase(it);
}

void EngineCore::reserve(ClientId client, const proto::SubmitRequest& submit, double now) {
  const std::string& id = submit.request_id();
  if (id.empty()) throw invalid_request("request_id", "is missing");
  if (id.size() > 256) throw invalid_request("request_id", "is longer than 256 bytes");
  if (entries_.count(id) > 0 || being_prepared_.count(id) > 0)
    throw invalid_request("request_id", "\"" + id + "\" is in use");
  if (!(submit.timeout() >= 0)) throw invalid_request("timeout", "must not be negative");
  if (given_up_) throw InputError(ErrorKind::kUnavailable, *given_up_);
  if (draining_) throw InputError(ErrorKind::kUnavailable, "the server is shutting down");
  check_room(submit, now);
  const auto window = clients_.find(client);
  TANDEM_CHECK(window != clients_.end(), "a client that is not connected");
  Entry& entry = entries_[id];
  entry.arrival = now;
  entry.deadline = submit.timeout() > 0 ? now + submit.timeout() : 0;
  entry.priority = submit.priority();
  entry.client = client;
  window->second.requests.insert(id);
  being_prepared_.insert(id);
  ++num_unfinished_;
  admission_.enter(entry.ticket, now);
}

// Throws OverloadError.
void EngineCore::check_room(const proto::SubmitRequest& submit, double now) {
  const auto most = static_cast<size_t>(config_.max_requests);
  const auto full = [&](const std::string& message) {
    ++refused_full_;
    return OverloadError(message, admission_.until_next_end(now));
  };
  if (num_unfinished_ >= most)
    throw full("the server has " + std::to_string(num_unfinished_) +
               " unfinished requests, as many as it takes");
  // Clients that do not acknowledge what they get must not fill the memory.
  if (entries_.size() - retained_.size() >= 2 * most)
    throw full("the server waits for the acknowledgement of " +
               std::to_string(entries_.size() - most) + " finished requests");
  // A batch comes in whole: its requests do not wait for each other.
  if (!submit.batch().empty() && entries_.count(submit.batch()) > 0) return;
  const auto refusal = admission_.refusal(submit.timeout(), now);
  if (!refusal) return;
  ++(refusal->by_deadline ? refused_deadline_ : refused_queue_time_);
  throw OverloadError(refusal->message(), refusal->retry_after,
                      refusal->by_deadline ? "timeout" : "");
}

void EngineCore::prepared(const std::string& request_id, PreparedRequest request, double now) {
  being_prepared_.erase(request_id);
  const auto it = entries_.find(request_id);
  if (it == entries_.end() || it->second.phase != Phase::kPreparing) return;  // cancelled, late
  Entry& entry = it->second;
  if (given_up_) {
    fail(request_id, entry, InputError(ErrorKind::kUnavailable, *given_up_), now);
  } else if (entry.deadline > 0 && now >= entry.deadline) {
    fail(request_id, entry, deadline_passed(), now);
  } else {
    entry.state = std::make_unique<RequestState>(request_id, std::move(request), tokenizer_,
                                                 entry.arrival, entry.priority);
    admission_.size(entry.ticket, work_of(entry.state->inputs(), entry.state->params()), now);
    entry.phase = Phase::kHeld;
    held_.push_back(request_id);
    dispatch();
  }
  flush_all(now);
}

void EngineCore::failed(const std::string& request_id, const InputError& error, double now) {
  being_prepared_.erase(request_id);
  const auto it = entries_.find(request_id);
  if (it == entries_.end() || it->second.phase != Phase::kPreparing) return;
  abort(request_id, it->second, error, now);
  flush_all(now);
}

void EngineCore::resume(ClientId client, const proto::ResumeRequest& resume, double now) {
  const std::string& id = resume.request_id();
  const auto it = entries_.find(id);
  if (it == entries_.end()) throw not_found(id);
  Entry& entry = it->second;
  if (entry.state) entry.cursor.resume(*entry.state, resume);
  entry.last_sent = false;
  detach(id, entry);
  const auto window = clients_.find(client);
  TANDEM_CHECK(window != clients_.end(), "a client that is not connected");
  entry.client = client;
  window->second.requests.insert(id);
  mark_news(id, entry);
  flush(client, now);
}

void EngineCore::cancel(const std::string& request_id, double now) {
  const auto it = entries_.find(request_id);
  if (it == entries_.end() || it->second.phase == Phase::kDone) return;
  leave_replica(request_id, it->second);
  --num_unfinished_;
  admission_.leave(it->second.ticket, false, now);
  erase(it);  // whoever cancels wants nothing more
  dispatch();
  flush_all(now);
}

void EngineCore::acknowledge(ClientId client, uint64_t message, double now) {
  const auto it = clients_.find(client);
  if (it == clients_.end()) return;
  for (const std::string& id : it->second.acknowledge(message)) {
    const auto entry = entries_.find(id);
    // It may have been taken over, and not been sent to its new client yet.
    if (entry != entries_.end() && entry->second.client == client && entry->second.last_sent)
      erase(entry);
  }
  flush(client, now);
}

// The entry has no client any more; it stays.
void EngineCore::detach(const std::string& id, Entry& entry) {
  if (!entry.client) {
    if (entry.phase == Phase::kDone) retained_.remove(id);
    return;
  }
  const auto window = clients_.find(*entry.client);
  if (window != clients_.end()) {
    window->second.requests.erase(id);
    window->second.news.erase(id);
  }
  entry.client.reset();
}

void EngineCore::erase(Entries::iterator it) {
  detach(it->first, it->second);
  entries_.erase(it);
}

// --- Ends ----------------------------------------------------------------------------------------

// The request has ended, with an error or without.
void EngineCore::finish(const std::string& id, Entry& entry, double now) {
  leave_replica(id, entry);
  entry.phase = Phase::kDone;
  entry.finished_at = now;
  --num_unfinished_;
  admission_.leave(entry.ticket, !entry.error, now);
  if (entry.client) {
    mark_news(id, entry);
  } else {
    retained_.push_back(id);
  }
}

void EngineCore::fail(const std::string& id, Entry& entry, const InputError& error, double now) {
  entry.error = to_proto(error);
  finish(id, entry, now);
}

// Fails it here, and ends it at its replica.
void EngineCore::abort(const std::string& id, Entry& entry, const InputError& error, double now) {
  fail(id, entry, error, now);
  dispatch();
}

void EngineCore::tick(double now) {
  std::vector<std::string> late;
  for (const auto& [id, entry] : entries_) {
    if (entry.phase == Phase::kDone) continue;
    if ((entry.deadline > 0 && now >= entry.deadline) ||
        (!entry.client && now >= entry.client_lost + config_.orphan_timeout))
      late.push_back(id);
  }
  for (const std::string& id : late) {
    Entry& entry = entries_.at(id);
    if (entry.client || (entry.deadline > 0 && now >= entry.deadline)) {
      abort(id, entry, deadline_passed(), now);
    } else {
      cancel(id, now);
    }
  }
  while (!retained_.empty()) {
    const auto it = entries_.find(retained_.front());
    TANDEM_CHECK(it != entries_.end());
    const double since = std::max(it->second.finished_at, it->second.client_lost);
    if (retained_.size() <= config_.max_retained && now < since + config_.retention) break;
    erase(it);
  }
  flush_all(now);
}

bool EngineCore::idle() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& e) {
    return e.second.phase == Phase::kDone && !e.second.client;
  });
}

// --- Messages to clients -------------------------------------------------------------------------

void EngineCore::mark_news(const std::string& id, Entry& entry) {
  if (!entry.client || entry.last_sent) return;
  if (entry.error || (entry.state && entry.cursor.behind(*entry.state)))
    clients_.at(*entry.client).news.insert(id);
}

void EngineCore::flush(ClientId client, double now) {
  ClientWindow& window = clients_.at(client);
  if (window.news.empty() || !window.has_credit()) return;
  proto::ServerMessage message;
  message.set_number(window.next_message());
  std::vector<std::string> delivered;  // whose last chunk nobody acknowledges
  for (const std::string& id : window.news) {
    Entry& entry = entries_.at(id);
    proto::RequestChunk& chunk = *message.add_chunks();
    if (entry.state) entry.cursor.next_chunk(*entry.state, now, chunk);
    if (entry.error) {
      chunk.set_request_id(id);
      *chunk.mutable_error() = *entry.error;
      chunk.set_finished(true);
    }
    add_decoded_tokens(chunk);
    if (entry.phase == Phase::kDone) {
      entry.last_sent = true;
      if (window.acknowledges())
        window.wait_for_acknowledgement(message.number(), id);
      else
        delivered.push_back(id);
    }
  }
  window.news.clear();
  outbox_.to_client(client, std::move(message));
  for (const std::string& id : delivered) erase(entries_.find(id));
}

void EngineCore::flush_all(double now) {
  for (const auto& [client, window] : clients_)
    if (!window.news.empty()) flush(client, now);
}

void EngineCore::add_decoded_tokens(proto::RequestChunk& chunk) const {
  const auto decode = [&](proto::TokenLogprobs& logprobs) {
    for (proto::TokenLogprob& t : *logprobs.mutable_top())
      t.set_decoded_token(tokenizer_.decode({t.token_id()}, /*skip_special=*/false));
  };
  for (auto& output : *chunk.mutable_outputs())
    for (auto& logprobs : *output.mutable_logprobs()) decode(logprobs);
  for (auto& logprobs : *chunk.mutable_prompt_logprobs()) decode(logprobs);
}

// --- Integrity -----------------------------------------------------------------------------------

void EngineCore::check_integrity() const {
  size_t unfinished = 0, held = 0, running = 0, suspects = 0, owned = 0;
  int sequences = 0;
  for (const auto& [id, entry] : entries_) {
    sequences += entry.ticket.sequences;
    unfinished += entry.phase != Phase::kDone;
    held += entry.phase == Phase::kHeld;
    running += entry.phase == Phase::kRunning;
    suspects += entry.phase == Phase::kSuspect;
    if (entry.phase == Phase::kPreparing) TANDEM_CHECK_EQ(being_prepared_.count(id), size_t{1});
    owned += entry.client.has_value();
    TANDEM_CHECK_EQ(entry.replica >= 0,
                    entry.phase == Phase::kRunning || entry.phase == Phase::kSuspect);
    if (entry.client) TANDEM_CHECK_EQ(clients_.at(*entry.client).requests.count(id), size_t{1});
    if (entry.phase != Phase::kDone && entry.state) TANDEM_CHECK(!entry.state->finished());
  }
  TANDEM_CHECK_EQ(unfinished, num_unfinished_);
  TANDEM_CHECK_EQ(sequences, admission_.sequences());
  TANDEM_CHECK_EQ(held, held_.size());
  for (const std::string& id : held_) TANDEM_CHECK(entries_.at(id).phase == Phase::kHeld);
  size_t running_there = 0, suspects_there = 0, owned_there = 0;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[i];
    running_there += replica.running.size();
    suspects_there += replica.suspects.size();
    TANDEM_CHECK(replica.up || replica.running.empty());
    for (const auto& [id, entry] : replica.running) {
      TANDEM_CHECK(&entries_.at(id) == entry);
      TANDEM_CHECK_EQ(entry->replica, static_cast<int>(i));
    }
    if (replica.on_trial) {
      TANDEM_CHECK_EQ(replica.running.count(*replica.on_trial), size_t{1});
      TANDEM_CHECK_EQ(replica.running.size(), size_t{1});
    } else {
      TANDEM_CHECK(!replica.up || replica.suspects.empty());
    }
  }
  TANDEM_CHECK_EQ(running, running_there);
  TANDEM_CHECK_EQ(suspects, suspects_there);
  for (const auto& [client, window] : clients_) {
    owned_there += window.requests.size();
    for (const std::string& id : window.news) TANDEM_CHECK_EQ(window.requests.count(id), size_t{1});
  }
  TANDEM_CHECK_EQ(owned, owned_there);
  for (const std::string& id : retained_) {
    const Entry& entry = entries_.at(id);
    TANDEM_CHECK(entry.phase == Phase::kDone && !entry.client);
  }
}

}  // namespace tandem
