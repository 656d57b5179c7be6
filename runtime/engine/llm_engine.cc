#include "runtime/engine/llm_engine.h"

#include "base/check.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/protocol/output_cursor.h"
#include "runtime/request/request_error.h"

namespace tandem {

LLMEngine::LLMEngine(const EngineConfig& config, const LoadProgress& progress)
    : shell_(config, progress, [this](const proto::RequestChunk& chunk) { take(chunk); }) {}

void LLMEngine::add_request(const std::string& request_id, const nlohmann::json& prompt,
                            const nlohmann::json& params, int priority) {
  add_request(request_id, read_prompt(prompt), read_options(params), priority);
}

void LLMEngine::add_request(const std::string& request_id, const proto::Prompt& prompt,
                            const proto::GenerationOptions& options, int priority) {
  add_request(request_id, processor().prepare(prompt, options), priority);
}

void LLMEngine::add_request(const std::string& request_id, PreparedRequest request, int priority) {
  proto::SubmitRequest submit;
  submit.set_request_id(request_id);
  submit.set_priority(priority);
  shell_.reserve(submit);
  unfinished_[request_id].set_request_id(request_id);
  adding_ = request_id;
  shell_.prepared(request_id, std::move(request));
  adding_.clear();
  if (const auto refused = std::exchange(refused_, std::nullopt)) throw to_input_error(*refused);
}

bool LLMEngine::abort_request(const std::string& request_id) {
  if (unfinished_.erase(request_id) == 0) return false;
  shell_.cancel(request_id);
  return true;
}

std::vector<proto::RequestOutput> LLMEngine::step() {
  shell_.step();
  return std::exchange(finished_, {});
}

void LLMEngine::take(const proto::RequestChunk& chunk) {
  const auto it = unfinished_.find(chunk.request_id());
  TANDEM_CHECK(it != unfinished_.end());
  if (chunk.has_error()) {
    if (chunk.request_id() == adding_)
      refused_ = chunk.error();
    else
      failures_.emplace_back(chunk.request_id(), to_input_error(chunk.error()));
    unfinished_.erase(it);
    return;
  }
  append_chunk(it->second, chunk);
  if (sink_) sink_(chunk);
  if (!chunk.finished()) return;
  finished_.push_back(std::move(it->second));
  unfinished_.erase(it);
}

void LLMEngine::check_integrity() const {
  shell_.check_integrity();
  TANDEM_CHECK_EQ(shell_.num_requests(), unfinished_.size());
}

}  // namespace tandem
