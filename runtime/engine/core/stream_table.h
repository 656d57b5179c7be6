// What each client is sent: credit, coalescing, resumption, and how long the ends of requests are
// kept for clients that are gone. Synchronous; the engine core's thread; no clock.
#pragma once

#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/engine/core/client_window.h"
#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/request_record.h"
#include "text/tokenizer.h"

namespace tandem {

// How a client is served.
enum class ClientKind : uint8_t {
  kRemote,  // messages may be lost: they are numbered, and few are under way unacknowledged
  kDirect,  // of this process: what the outbox has taken has arrived
};

// Throws InputError if a client says that it has more than there is.
void check_received(const proto::RequestOutput& output, const proto::ResumeRequest& received);

class StreamTable {
 public:
  // retention: seconds that the end of a request waits for its client, if that is gone;
  // max_retained: ends that wait so. `tokenizer` and `outbox` outlive the table.
  StreamTable(double retention, size_t max_retained, const Tokenizer& tokenizer,
              EngineOutbox& outbox);

  void connect(ClientId client, ClientKind kind);
  // Its requests, which are returned, stay without a client.
  std::vector<RequestRecord*> disconnect(ClientId client, double now);
  void attach(RequestRecord& record, ClientId client);
  // The record has no client any more, nor is it kept for one.
  void detach(RequestRecord& record);
  // The client takes over the stream, behind what it has. Throws InputError, and changes nothing.
  void resume(RequestRecord& record, ClientId client, const proto::ResumeRequest& received);

  // There may be something new to send.
  void note_news(RequestRecord& record);
  // It has ended: its client is told, or it waits for one.
  void end(RequestRecord& record, double now);
  // Sends the news, a message to each client that has credit. Returns the records whose end has
  // reached a direct client.
  std::vector<RequestRecord*> flush();
  // Returns the requests whose end has arrived.
  std::vector<std::string> acknowledge(ClientId client, uint64_t message);
  // Whether this client was the last to be sent the record's end.
  static bool has_end(const RequestRecord& record, ClientId client) {
    return record.client == client && record.end_sent;
  }
  // The end that has waited longest, if that is too long or there are too many; else null.
  RequestRecord* expired(double now) const;
  size_t num_retained() const { return retained_.size(); }

  // records: all that there are.
  void check_integrity(const std::vector<const RequestRecord*>& records) const;

 private:
  struct Client {
    ClientKind kind = ClientKind::kRemote;
    ClientWindow window = {};                         // of a remote one
    std::map<uint64_t, RequestRecord*> streams = {};  // by serial
    std::vector<RequestRecord*> news = {};            // those of them that have something to send
  };

  void send_news(ClientId id, Client& client, std::vector<RequestRecord*>& arrived);
  void write_chunk(RequestRecord& record, proto::RequestChunk& chunk) const;

  double retention_;
  size_t max_retained_;
  const Tokenizer& tokenizer_;
  EngineOutbox& outbox_;
  std::unordered_map<ClientId, Client> clients_;
  std::list<RequestRecord*> retained_;  // done and without a client, oldest first
};

}  // namespace tandem
