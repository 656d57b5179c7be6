// An engine of this process, opened by the flags of a command line that are given as JSON.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/engine/engine_api.h"
#include "runtime/request/answer_reader.h"

namespace tandem::library {

// One rank is a LocalEngine; several are threads of this process. Usable from any thread.
class OpenEngine {
 public:
  // As tandem_open() (library.h). Throws InputError naming the option as it was given.
  OpenEngine(const nlohmann::json& options, const std::function<bool()>& stop);
  ~OpenEngine();
  OpenEngine(const OpenEngine&) = delete;
  OpenEngine& operator=(const OpenEngine&) = delete;

  // As EngineApi's. Once closed, the request gets an error.
  void submit(EngineApi::Request request, EngineApi::OnChunk on_chunk);
  void cancel(const std::string& id);
  // {"text"} → {"token_ids"}, or the reverse. Throws InputError.
  nlohmann::json tokenize(const nlohmann::json& request) const;
  const nlohmann::json& facts() const;
  // What answers are besides texts, and what one says: JSON, or "" where it is a text or the engine
  // is closed. (AnswerReader)
  AnswerReader::Question question(const proto::Prompt& prompt) const;
  std::string parsed(const AnswerReader::Question& question, const proto::RequestOutput& output,
                     int index) const;
  // Fails what is under way. Idempotent. No callback runs afterwards. Not from a callback.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::library
