// One sound to be transcribed: a request to the engine, and one answer, or stream, of what comes
// back.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "server/api/engine_job.h"
#include "server/api/fields/json_body.h"
#include "server/api/speech/speech_request.h"

namespace tandem::server {

class SpeechJob final : public EngineJob {
 public:
  SpeechJob(AppContext& app, std::shared_ptr<Exchange> exchange, SpeechRequest request)
      : EngineJob(app, std::move(exchange)), request_(std::move(request)) {
    names_ = request_.names;
    result_.add_outputs();
  }
  // Once.
  void start();

 private:
  void on_chunk(size_t, const proto::RequestChunk& chunk) override;
  void fail(const proto::Error& error) override;
  void finish() override;
  std::string field_of(size_t, const std::string& field) const override {
    return request_.field_of(field);
  }
  std::string list_field() const override { return "file"; }

  void count(const proto::RequestChunk& chunk);
  void take(const proto::CompletionChunk& news);
  void begin_stream();
  void send(const Json& event);
  void send_text();
  void send_segments(int from);
  Json usage() const;
  Json token_usage() const;
  std::string language() const;
  std::string whole() const;

  SpeechRequest request_;
  proto::RequestOutput result_;  // what has come, as if it were all
  double seconds_ = 0;           // of the sound
  double first_token_ = -1;      // seconds since the arrival; -1: none yet
  int prompt_tokens_ = 0, output_tokens_ = 0;
  size_t text_begin_ = 0,
         text_sent_ = 0;   // bytes: the blanks in front, and those up to what is sent
  OrderedTimes times_{0};  // of a stream's segments
  bool streaming_ = false;
};

}  // namespace tandem::server
