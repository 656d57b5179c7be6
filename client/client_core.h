// The decisions of the client library: open streams and their progress, messages on connect and
// disconnect, the new part of each chunk, acknowledgements. Synchronous; no I/O, no threads, no
// clock. Events come in with the time; messages and news leave through ClientOutbox.
//
// Connections are numbered; messages of an earlier one are dropped. On each new connection:
// - Every stream that the server may know is resumed behind its last token received here.
// - A stream that the server does not know is submitted again if nothing of it has arrived.
// So every token is passed on exactly once, whatever connections do. The known part of a chunk is
// cut off, and a gap ends its stream.
//
// Submissions beyond the send window wait here, in order. If the server refuses one as overload,
// nothing is sent for the time it asks for. Then the window is the number of streams that it had,
// and grows a little with each stream that ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/received_parts.h"
#include "client/send_window.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem::client {

using StreamKey = uint64_t;  // of a stream, chosen by the caller and never used twice

// News of a stream. The last one has `finished` or an `error`.
struct StreamNews {
  StreamKey stream = 0;
  proto::RequestChunk chunk;  // nothing that was passed on before
  bool finished = false;
  std::optional<proto::Error> error;
};

struct InfoNews {
  uint64_t query = 0;
  proto::ServerInfo info;
  std::optional<proto::Error> error;
};

// To be handed to the user in order; then consumed(connection, number) is due if number > 0.
struct Delivery {
  uint64_t connection = 0;
  uint64_t number = 0;
  std::vector<StreamNews> streams;
  std::vector<InfoNews> infos;
};

class ClientOutbox {
 public:
  virtual ~ClientOutbox() = default;
  // To the server of the current connection.
  virtual void send(proto::ClientMessage message) = 0;
  virtual void deliver(Delivery delivery) = 0;
  // The connection is unusable; next comes connected(), or nothing. Not called within connected().
  virtual void drop_connection(const std::string& reason) = 0;
};

struct ClientCoreConfig {
  std::string name;               // of this client, for the server's log
  double reconnect_timeout = 30;  // seconds that a stream waits without a connection; 0: fails
  size_t max_under_way = 0;    // streams at the server; what is submitted beyond waits here. 0: all
  bool retry_refused = false;  // what the server refuses for now waits here, and is sent again
};

class ClientCore {
 public:
  // Servers keep to 16; one that goes far beyond is at fault.
  static constexpr uint64_t kMaxUnconsumed = 64;

  ClientCore(ClientCoreConfig config, ClientOutbox& outbox);

  // --- connection ---
  // A new connection; its number is larger than all before.
  void connected(uint64_t connection, double now);
  void disconnected(const std::string& reason, double now);
  bool is_connected() const { return connection_ != 0; }
  void on_message(uint64_t connection, const proto::ServerMessage& message, double now);
  // The user has seen all of that message.
  void consumed(uint64_t connection, uint64_t number);

  // --- user ---
  void submit(StreamKey stream, proto::SubmitRequest request, double now);
  // A stream that another client opened.
  void resume(StreamKey stream, const std::string& request_id, double now);
  void cancel(StreamKey stream);
  void query_info(uint64_t query, double now);
  // All open streams fail. Nothing comes afterwards.
  void close(const std::string& type, const std::string& message);

  // To be called about ten times a second.
  void tick(double now);
  const std::string& connection_state() const { return state_; }
  size_t num_open() const { return streams_.size(); }
  size_t num_waiting() const { return waiting_.size(); }  // of them, not at the server
  void check_integrity() const;

 private:
  enum class Phase : uint8_t {
    kUnsent,    // the server has not been asked on this connection
    kAsked,     // submitted or resumed on this connection; nothing has come
    kReceiving  // something has come on this connection
  };
  struct Stream {
    StreamKey key = 0;
    Phase phase = Phase::kUnsent;
    std::optional<proto::SubmitRequest> submit;  // until something has arrived
    bool known = false;  // the server may know it: it is resumed, not submitted
    bool last_resumed = false;
    bool waits = false;  // it is in waiting_
    int asked_again = 0;
    double opened = 0;
    ReceivedParts received;
  };
  using Streams = std::unordered_map<std::string, Stream>;

  // The server may be given more.
  void send_waiting(double now);
  bool wait_again(const std::string& id, Stream& stream, const proto::Error& error, double now);
  void fail_late(double now, Delivery& delivery);
  void erase(Streams::iterator it);
  void open(StreamKey key, const std::string& id, Stream stream, double now);
  void ask(const std::string& id, Stream& stream, double now);
  void on_chunk(const proto::RequestChunk& chunk, bool numbered, double now, Delivery& delivery);
  bool ask_again(const std::string& id, Stream& stream, const proto::Error& error, double now);
  void on_info(const proto::ServerInfo& info, Delivery& delivery);
  void fail(Streams::iterator it, proto::Error error, Delivery& delivery);
  void fail_lost(double now, Delivery& delivery);
  void send_cancel(const std::string& id);
  void break_connection(const std::string& reason, double now);

  ClientCoreConfig config_;
  ClientOutbox& outbox_;
  Streams streams_;
  std::unordered_map<StreamKey, std::string> ids_;
  std::set<std::pair<StreamKey, std::string>> waiting_;  // submissions, the first ones first
  SendWindow window_;
  std::map<uint64_t, double> infos_;      // query → time of asking
  uint64_t connection_ = 0;               // 0: none
  uint64_t received_ = 0, consumed_ = 0;  // messages of this connection
  double disconnected_at_ = 0;
  std::string state_ = "not connected yet";
  std::optional<proto::Error> closed_;
};

}  // namespace tandem::client
