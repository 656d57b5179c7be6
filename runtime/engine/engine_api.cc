#include "runtime/engine/engine_api.h"

#include <exception>
#include <memory>
#include <utility>

#include "runtime/protocol/output_cursor.h"
#include "runtime/request/request_error.h"

namespace tandem {

std::future<proto::RequestOutput> submit_whole(EngineApi& engine, EngineApi::Request request) {
  struct Gathered {
    std::promise<proto::RequestOutput> whole;
    proto::RequestOutput output;
  };
  const auto gathered = std::make_shared<Gathered>();
  gathered->output.set_request_id(request.id);
  std::future<proto::RequestOutput> whole = gathered->whole.get_future();
  engine.submit(std::move(request), [gathered](const proto::RequestChunk& chunk) {
    if (chunk.has_error())
      return gathered->whole.set_exception(std::make_exception_ptr(to_input_error(chunk.error())));
    append_chunk(gathered->output, chunk);
    if (chunk.finished()) gathered->whole.set_value(std::move(gathered->output));
  });
  return whole;
}

proto::SubmitRequest to_submit(EngineApi::Request& request) {
  proto::SubmitRequest submit;
  submit.set_request_id(std::move(request.id));
  *submit.mutable_prompt() = std::move(request.prompt);
  *submit.mutable_options() = std::move(request.options);
  submit.set_timeout(request.timeout);
  submit.set_priority(request.priority);
  submit.set_batch(std::move(request.batch));
  return submit;
}

}  // namespace tandem
