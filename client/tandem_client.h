// The client library: submits requests to a Tandem server and streams what it generates. The
// contract, with all types of errors: docs/client.md.
//
//   auto client = tandem::client::Client::connect({.address = "127.0.0.1:7070"});
//   auto request = client.submit({.prompt = "A long text …"});
//   std::puts(request.get().outputs(0).text().c_str());
//
// All functions may be called from any thread, except where it says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::client {

// What a request, or the connection, failed with.
class ClientError : public std::runtime_error {
 public:
  ClientError(std::string type, const std::string& message, std::string param = {},
              double retry_after = 0)
      : std::runtime_error(message),
        type_(std::move(type)),
        param_(std::move(param)),
        retry_after_(retry_after) {}
  // "invalid_request_error", "connection_error", …
  const std::string& type() const { return type_; }
  // The field at fault; empty when there is no single one.
  const std::string& param() const { return param_; }
  // Of "overloaded_error": seconds until there is likely to be room.
  double retry_after() const { return retry_after_; }

 private:
  std::string type_, param_;
  double retry_after_;
};

// The encoder's input, and the decoder's if it is not the model's default. Throws ClientError
// (invalid_request_error) where a text is not UTF-8.
class Prompt {
 public:
  Prompt() = default;
  Prompt(const std::string& text);  // NOLINT: on purpose implicit
  Prompt(const char* text);         // NOLINT
  static Prompt token_ids(const std::vector<int32_t>& ids);
  // For models whose encoder reads frames: rows of `width` numbers, one behind another.
  static Prompt frames(int width, const std::vector<float>& values);
  // Sound to be transcribed, by a model that hears (docs/speech.md): the bytes of a file, WAV,
  // FLAC, Ogg, MP3 or another, at most kMostSoundBytes. Throws ClientError where it has more or
  // none, or a path cannot be read.
  static Prompt sound(std::string file, const proto::SpeechParams& params = {});
  static Prompt sound_file(const std::filesystem::path& path,
                           const proto::SpeechParams& params = {});
  static constexpr size_t kMostSoundBytes = size_t{200} << 20;
  static Prompt pair(const Prompt& encoder, const Prompt& decoder);
  // Those of the source's encoder tokens have global attention, instead of the model's (the first).
  static Prompt with_global_attention(const Prompt& source, const std::vector<int32_t>& positions);
  // A target to be scored behind a prompt (text, tokens or a pair), up to an end token. Nothing is
  // generated: score_of() the output.
  static Prompt with_target(const Prompt& source, const Prompt& target, bool append_eos = true);
  // The source's encoder output, pooled ("mean", "cls" or "last"), instead of text:
  // embedding_of() the output.
  static Prompt pooled(const Prompt& source, const std::string& pooling = "mean",
                       bool normalize = true);
  // As in docs/jsonl.md. What is wrong with it, the request fails with.
  static Prompt raw_json(const std::string& json);
  // As it is sent.
  explicit Prompt(proto::Prompt message) : message_(std::move(message)) {}

  const proto::Prompt& message() const { return message_; }
  // Why there is no message: what was wrong with the JSON; a type of "" if nothing was.
  const proto::Error& error() const { return error_; }

 private:
  proto::Prompt message_;
  proto::Error error_;
};

// How likely a target is to the model, behind a source (docs/scoring.md). Natural logarithms.
struct Score {
  std::vector<int32_t> token_ids;         // of the target, with the end token if it counts
  std::vector<double> logprobs;           // of each token, given those before it
  std::vector<proto::TokenLogprobs> top;  // the same with ranks, and the k most likely ones
  double sum = 0, mean = 0;
  double perplexity = 0;  // exp(-mean)
};
// Of a finished request whose prompt has a target. Throws ClientError if it is none.
Score score_of(const proto::RequestOutput& output);

// Of a finished request whose prompt is pooled. Throws ClientError if it is none.
std::vector<float> embedding_of(const proto::RequestOutput& output);

struct Request {
  std::string id = {};  // empty: a random one
  Prompt prompt = {};
  std::string params_json = {};  // docs/parameters.md; empty: the model's defaults
  double timeout = 0;            // seconds until the server gives the request up; 0: none
  int32_t priority = 0;          // smaller is served first
  // The id of another request, with which this one comes in if it has (docs/serving.md, Overload).
  std::string batch = {};
  // The same as params_json, field by field; what params_json says comes before.
  proto::GenerationOptions options = {};
};

// What has been added since the call before; the last one has `finished`, and `error` if it failed.
using ChunkCallback = std::function<void(const proto::RequestChunk&)>;

class Stream;  // internal

// A request under way. Copies are the same request; without any it goes on.
class RequestHandle {
 public:
  explicit RequestHandle(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

  const std::string& id() const;
  // The server stops working on it; get() throws a ClientError of type "cancelled", unless the
  // request ended before.
  void cancel();
  bool done() const;
  void wait() const;
  // Whether it has ended.
  bool wait_for(std::chrono::milliseconds timeout) const;
  // The whole output; waits for it. Throws ClientError, or what the request's callback threw.
  proto::RequestOutput get() const;
  std::shared_future<proto::RequestOutput> future() const;
  // All that has come since the call before; waits for something. Nothing: that was all. Throws as
  // get() does, once everything before has been returned. Handles of one request share the place.
  std::optional<proto::RequestChunk> next_chunk();

 private:
  std::shared_ptr<Stream> stream_;
};

struct ClientOptions {
  std::string address = {};      // host:port; empty: the access file's
  std::string access_file = {};  // empty: the one that the server on this host wrote for the port
  std::string name = {};         // for the server's log
  // connect(): until connect_timeout, not only once; in any case not where something else than a
  // server of Tandem answers.
  bool retry = true;
  std::chrono::milliseconds connect_timeout{10000};
  // How long a request survives without a connection. 0: not at all.
  std::chrono::milliseconds reconnect_timeout{30000};
  // Requests at the server at one time; what is submitted beyond waits in this process. 0: no
  // bound.
  size_t max_under_way = 1024;
  // What the server refuses for now (overloaded_error) is sent again when it says so, as often as
  // it takes; but not what is refused for its own timeout.
  bool retry_refused = true;
};

class Client {
 public:
  // Waits for the server. Throws ClientError (connection_error, which says what was found at the
  // address; protocol_error; invalid_request_error for an address that is none).
  static Client connect(const ClientOptions& options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  // close()

  // Never waits for the server. on_chunk is called from the client's own thread, for one chunk at a
  // time, in order, each token once. While it runs nothing else is delivered, and in the end the
  // server waits too: it must not wait for requests of this client, nor close it. Of a client that
  // has been closed, submit() itself calls it, with an error.
  RequestHandle submit(const Request& request, ChunkCallback on_chunk = {});
  // They come in with the first one, however many they are, unless they name another batch.
  std::vector<RequestHandle> submit_batch(const std::vector<Request>& requests);
  // score_of() such a request; waits for it. Throws ClientError.
  Score score(const Prompt& source, const Prompt& target, bool append_eos = true);
  // embedding_of() such a request; waits for it. Throws ClientError.
  std::vector<float> embed(const Prompt& source, const std::string& pooling = "mean",
                           bool normalize = true);
  // The stream of a request that another client (or process) submitted; from its beginning.
  RequestHandle resume(const std::string& request_id, ChunkCallback on_chunk = {});

  std::shared_future<proto::ServerInfo> server_info_async();
  // Throws ClientError (timeout_error, connection_error).
  proto::ServerInfo server_info(std::chrono::milliseconds timeout = std::chrono::seconds(10));

  // What is not finished fails here; at the server it goes on for a while, to be resumed. Returns
  // after the last callback. Not from a callback.
  void close();

  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::client
