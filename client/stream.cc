// See stream.h.
#include "client/stream.h"

#include <utility>

namespace tandem::client {
namespace {

std::exception_ptr to_exception(const proto::Error& error) {
  return std::make_exception_ptr(
      ClientError(error.type(), error.message(), error.param(), error.retry_after()));
}

}  // namespace

Stream::Stream(StreamKey k, std::string request_id, ChunkCallback on_chunk)
    : key(k), id(std::move(request_id)), on_chunk_(std::move(on_chunk)) {
  output_.set_request_id(id);
  future_ = promise_.get_future().share();
}

std::exception_ptr Stream::add(StreamNews news) {
  {
    const MutexLock lock(mutex_);
    if (done_) return nullptr;  // its callback threw
    append_chunk(output_, news.chunk);
    if (news.chunk.has_progress()) progress_ = news.chunk.progress();
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
  const MutexLock lock(mutex_);
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
  const MutexLock lock(mutex_);
  if (!done_) cancel_ = std::move(cancel);
}

std::function<void()> Stream::cancel_function() {
  const MutexLock lock(mutex_);
  return cancel_;
}

std::optional<proto::RequestChunk> Stream::next_chunk() {
  const MutexLock lock(mutex_);
  while (!done_ && version_ <= seen_version_) changed_.wait(mutex_);
  if (version_ > seen_version_) {
    seen_version_ = version_;
    proto::RequestChunk chunk = cursor_.next_chunk(output_);
    chunk.set_request_id(id);
    if (progress_) *chunk.mutable_progress() = *progress_;
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
