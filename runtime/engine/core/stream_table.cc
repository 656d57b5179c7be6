#include "runtime/engine/core/stream_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace tandem {

void check_received(const proto::RequestOutput& output, const proto::ResumeRequest& received) {
  for (const proto::StreamPosition& p : received.received()) {
    if (p.index() < 0 || p.index() >= output.outputs_size())
      throw invalid_request("received.index", std::to_string(p.index()) + " of " +
                                                  std::to_string(output.outputs_size()) +
                                                  " sequences");
    const proto::CompletionOutput& sequence = output.outputs(p.index());
    if (p.num_tokens() < 0 || p.num_tokens() > sequence.token_ids_size() || p.text_bytes() < 0 ||
        static_cast<size_t>(p.text_bytes()) > sequence.text().size())
      throw invalid_request("received", "more than sequence " + std::to_string(p.index()) + " has");
  }
  if (received.num_prompt_logprobs() < 0 ||
      received.num_prompt_logprobs() > output.prompt_logprobs_size())
    throw invalid_request("num_prompt_logprobs", "more than there are");
}

StreamTable::StreamTable(double retention, size_t max_retained, const Tokenizer& tokenizer,
                         EngineOutbox& outbox)
    : retention_(retention), max_retained_(max_retained), tokenizer_(tokenizer), outbox_(outbox) {}

// --- Clients -------------------------------------------------------------------------------------

void StreamTable::connect(ClientId client, ClientKind kind) {
  TANDEM_CHECK(clients_.emplace(client, Client{kind}).second, "client ids are used once");
}

std::vector<RequestRecord*> StreamTable::disconnect(ClientId client, double now) {
  std::vector<RequestRecord*> lost;
  const auto it = clients_.find(client);
  if (it == clients_.end()) return lost;
  for (const auto& [serial, record] : it->second.streams) {
    record->client.reset();
    record->has_news = false;
    record->client_lost = now;
    if (record->stage == RequestStage::kDone) retained_.push_back(record);
    lost.push_back(record);
  }
  clients_.erase(it);
  return lost;
}

void StreamTable::attach(RequestRecord& record, ClientId client) {
  const auto it = clients_.find(client);
  TANDEM_CHECK(it != clients_.end(), "a client that is not connected");
  record.client = client;
  it->second.streams.emplace(record.serial, &record);
}

void StreamTable::detach(RequestRecord& record) {
  if (!record.client) {
    if (record.stage == RequestStage::kDone) retained_.remove(&record);
    return;
  }
  Client& client = clients_.at(*record.client);
  client.streams.erase(record.serial);
  if (std::exchange(record.has_news, false)) std::erase(client.news, &record);
  record.client.reset();
}

void StreamTable::resume(RequestRecord& record, ClientId client,
                         const proto::ResumeRequest& received) {
  if (const proto::RequestOutput* output = record.output()) {
    check_received(*output, received);
    record.cursor.resume(received);
  }
  record.seconds_told = -1;
  record.end_sent = false;
  detach(record);
  attach(record, client);
  note_news(record);
}

// --- Streams -------------------------------------------------------------------------------------

void StreamTable::note_news(RequestRecord& record) {
  if (!record.client || record.end_sent || record.has_news) return;
  const proto::RequestOutput* output = record.output();
  const bool progress = record.composite && record.composite->seconds() > 0 &&
                        record.composite->seconds_done() != record.seconds_told;
  if (!record.error && !progress && !(output != nullptr && record.cursor.behind(*output))) return;
  record.has_news = true;
  clients_.at(*record.client).news.push_back(&record);
}

void StreamTable::end(RequestRecord& record, double now) {
  record.stage = RequestStage::kDone;
  record.finished_at = now;
  if (record.client) {
    note_news(record);
  } else {
    retained_.push_back(&record);
  }
}

std::vector<RequestRecord*> StreamTable::flush() {
  std::vector<RequestRecord*> arrived;
  for (auto& [id, client] : clients_)
    if (!client.news.empty()) send_news(id, client, arrived);
  return arrived;
}

void StreamTable::send_news(ClientId id, Client& client, std::vector<RequestRecord*>& arrived) {
  const bool direct = client.kind == ClientKind::kDirect;
  if (!direct && !client.window.has_credit()) return;
  proto::ServerMessage message;
  if (!direct) message.set_number(client.window.next_message());
  for (RequestRecord* record : client.news) {
    record->has_news = false;
    write_chunk(*record, *message.add_chunks());
    if (record->stage != RequestStage::kDone) continue;
    record->end_sent = true;
    if (direct) {
      arrived.push_back(record);
    } else {
      client.window.wait_for_acknowledgement(message.number(), record->id);
    }
  }
  client.news.clear();
  outbox_.to_client(id, std::move(message));
}

void StreamTable::write_chunk(RequestRecord& record, proto::RequestChunk& chunk) const {
  if (const proto::RequestOutput* output = record.output())
    record.cursor.next_chunk(*output, chunk);
  if (record.composite && record.composite->seconds() > 0) {
    record.seconds_told = record.composite->seconds_done();
    chunk.mutable_progress()->set_seconds_done(record.seconds_told);
    chunk.mutable_progress()->set_seconds(record.composite->seconds());
  }
  if (record.error) {
    chunk.set_request_id(record.id);
    *chunk.mutable_error() = *record.error;
    chunk.set_finished(true);
  }
  const auto decode = [&](proto::TokenLogprobs& logprobs) {
    for (proto::TokenLogprob& t : *logprobs.mutable_top())
      t.set_decoded_token(tokenizer_.decode({t.token_id()}, /*skip_special=*/false));
  };
  for (auto& output : *chunk.mutable_outputs())
    for (auto& logprobs : *output.mutable_logprobs()) decode(logprobs);
  for (auto& logprobs : *chunk.mutable_prompt_logprobs()) decode(logprobs);
}

std::vector<std::string> StreamTable::acknowledge(ClientId client, uint64_t message) {
  const auto it = clients_.find(client);
  if (it == clients_.end()) return {};
  return it->second.window.acknowledge(message);
}

RequestRecord* StreamTable::expired(double now) const {
  if (retained_.empty()) return nullptr;
  RequestRecord* oldest = retained_.front();
  const double since = std::max(oldest->finished_at, oldest->client_lost);
  return retained_.size() > max_retained_ || now >= since + retention_ ? oldest : nullptr;
}

void StreamTable::check_integrity(const std::vector<const RequestRecord*>& records) const {
  size_t owned = 0, with_news = 0;
  for (const RequestRecord* record : records) {
    owned += record->client.has_value();
    with_news += record->has_news;
    if (record->client)
      TANDEM_CHECK_EQ(clients_.at(*record->client).streams.count(record->serial), size_t{1});
  }
  for (const auto& [id, client] : clients_) {
    client.window.check_integrity();
    owned -= client.streams.size();
    with_news -= client.news.size();
    for (const RequestRecord* record : client.news)
      TANDEM_CHECK(record->has_news && record->client == id);
  }
  TANDEM_CHECK_EQ(owned, size_t{0});
  TANDEM_CHECK_EQ(with_news, size_t{0});
  for (const RequestRecord* record : retained_)
    TANDEM_CHECK(record->stage == RequestStage::kDone && !record->client);
}

}  // namespace tandem
