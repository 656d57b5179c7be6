// See stream.h.
#include "client/stream.h"

#include <algorithm>
#include <utility>

namespace tandem::client {
namespace {

proto::CompletionOutput& output_at(proto::RequestOutput& output, int index) {
  auto& list = *output.mutable_outputs();
  const auto less = [](const proto::CompletionOutput& o, int i) { return o.index() < i; };
  const auto at = std::lower_bound(list.begin(), list.end(), index, less) - list.begin();
  if (at == list.size() || list.Get(static_cast<int>(at)).index() != index) {
    list.Add()->set_index(index);
    for (int i = list.size() - 1; i > at; --i) list.SwapElements(i, i - 1);
  }
  return *list.Mutable(static_cast<int>(at));
}

std::exception_ptr to_exception(const proto::Error& error) {
  return std::make_exception_ptr(
      ClientError(error.type(), error.message(), error.param(), error.retry_after()));
}

}  // namespace

void append(proto::RequestOutput& output, const proto::RequestChunk& chunk) {
  if (chunk.has_inputs()) *output.mutable_inputs() = chunk.inputs();
  for (const proto::CompletionChunk& news : chunk.outputs()) {
    proto::CompletionOutput& to = output_at(output, news.index());
    to.mutable_token_ids()->MergeFrom(news.token_ids());
    to.mutable_text()->append(news.text());
    to.mutable_logprobs()->MergeFrom(news.logprobs());
    to.set_cumulative_logprob(news.cumulative_logprob());
    if (news.has_score()) to.set_score(news.score());
    to.set_finish_reason(news.finish_reason());
    to.set_stop_reason(news.stop_reason());
  }
  output.mutable_prompt_logprobs()->MergeFrom(chunk.prompt_logprobs());
  if (chunk.finished()) output.set_finished(true);
  if (chunk.has_embedding()) *output.mutable_embedding() = chunk.embedding();
  if (chunk.has_metrics()) *output.mutable_metrics() = chunk.metrics();
}

Stream::Stream(StreamKey k, std::string request_id, ChunkCallback on_chunk)
    : key(k), id(std::move(request_id)), on_chunk_(std::move(on_chunk)) {
  output_.set_request_id(id);
  future_ = promise_.get_future().share();
}

std::exception_ptr Stream::add(StreamNews news) {
  {
    const std::lock_guard lock(mutex_);
    if (done_) return nullptr;  // its callback threw
    append(output_, news.chunk);
    if (!news.error || news.chunk.outputs_size() > 0 || news.chunk.prompt_logprobs_size() > 0) {
      ++version_;
      changed_.notify_all();
    }
  }
  news.chunk.set_request_id(id);
  if (news.error) *news.chunk.mutable_error() = *news.error;
  if (news.finished) news.chunk.set_finished(true);
  std::exception_ptr thrown;
  try {
    if (on_chunk_) on_chunk_(news.chunk);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) {
    fail(thrown);
  } else if (news.finished) {
    fail(news.error ? to_exception(*news.error) : nullptr);
  }
  return thrown;
}

void Stream::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  done_ = true;
  error_ = error;
  cancel_ = nullptr;
  changed_.notify_all();
  if (error) {
    promise_.set_exception(error);
  } else {
    promise_.set_value(output_);
  }
}

void Stream::set_cancel(std::function<void()> cancel) {
  const std::lock_guard lock(mutex_);
  if (!done_) cancel_ = std::move(cancel);
}

std::function<void()> Stream::cancel_function() {
  const std::lock_guard lock(mutex_);
  return cancel_;
}

std::optional<proto::RequestChunk> Stream::next_chunk() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ || version_ > seen_version_; });
  if (version_ > seen_version_) {
    seen_version_ = version_;
    proto::RequestChunk chunk = cursor_.next_chunk(output_);
    chunk.set_request_id(id);
    return chunk;
  }
  if (error_) std::rethrow_exception(error_);
  return std::nullopt;
}

// --- Handle --------------------------------------------------------------------------------------

const std::string& RequestHandle::id() const { return stream_->id; }
void RequestHandle::cancel() { stream_->cancel(); }
bool RequestHandle::done() const { return wait_for(std::chrono::milliseconds(0)); }
void RequestHandle::wait() const { stream_->future().wait(); }
bool RequestHandle::wait_for(std::chrono::milliseconds timeout) const {
  return stream_->future().wait_for(timeout) == std::future_status::ready;
}
proto::RequestOutput RequestHandle::get() const { return stream_->future().get(); }
std::shared_future<proto::RequestOutput> RequestHandle::future() const { return stream_->future(); }
std::optional<proto::RequestChunk> RequestHandle::next_chunk() { return stream_->next_chunk(); }

}  // namespace tandem::client
