// See dispatcher.h.
#include "client/dispatcher.h"

#include <utility>

namespace tandem::client {
namespace {

constexpr const char* kClosedType = "connection_error";
constexpr const char* kClosed = "the client was closed";

std::exception_ptr closed_error() {
  return std::make_exception_ptr(ClientError(kClosedType, kClosed));
}

// Its last news, to its callback too.
void end_closed(Stream& stream) {
  StreamNews news;
  news.stream = stream.key;
  news.finished = true;
  news.error.emplace();
  news.error->set_type(kClosedType);
  news.error->set_message(kClosed);
  stream.add(std::move(news));
}

}  // namespace

void Dispatcher::on_consumed(std::function<void(uint64_t, uint64_t)> consumed) {
  const MutexLock lock(mutex_);
  consumed_ = std::move(consumed);
}

void Dispatcher::add(const std::shared_ptr<Stream>& stream) {
  {
    const MutexLock lock(mutex_);
    if (!finished_) {
      streams_[stream->key] = stream;
      return;
    }
  }
  end_closed(*stream);
}

void Dispatcher::add_info(uint64_t query, Info promise) {
  const MutexLock lock(mutex_);
  if (finished_) {
    promise.set_exception(closed_error());
  } else {
    infos_[query] = std::move(promise);
  }
}

void Dispatcher::deliver(Delivery delivery) {
  const MutexLock lock(mutex_);
  queue_.push_back(std::move(delivery));
  changed_.notify_one();
}

void Dispatcher::finish() {
  {
    const MutexLock lock(mutex_);
    finishing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Dispatcher::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!finishing_ && queue_.empty()) changed_.wait(mutex_);
    if (queue_.empty()) break;
    Delivery delivery = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    hand_out(std::move(delivery));
    lock.lock();
  }
  finished_ = true;
  lock.unlock();
  fail_all();
}

void Dispatcher::hand_out(Delivery delivery) {
  for (StreamNews& news : delivery.streams) {
    std::shared_ptr<Stream> stream;
    {
      const MutexLock lock(mutex_);
      const auto it = streams_.find(news.stream);
      if (it == streams_.end()) continue;
      stream = it->second;
      if (news.finished) streams_.erase(it);
    }
    // After the callback has thrown the server need not go on.
    const bool finished = news.finished;
    if (const auto cancel = stream->cancel_function();
        stream->add(std::move(news)) != nullptr && !finished && cancel)
      cancel();
  }
  for (InfoNews& news : delivery.infos) {
    std::optional<Info> promise;
    {
      const MutexLock lock(mutex_);
      const auto it = infos_.find(news.query);
      if (it == infos_.end()) continue;
      promise = std::move(it->second);
      infos_.erase(it);
    }
    if (news.error) {
      promise->set_exception(std::make_exception_ptr(
          ClientError(news.error->type(), news.error->message(), news.error->param())));
    } else {
      promise->set_value(std::move(news.info));
    }
  }
  if (delivery.number == 0) return;
  std::function<void(uint64_t, uint64_t)> consumed;
  {
    const MutexLock lock(mutex_);
    consumed = consumed_;
  }
  if (consumed) consumed(delivery.connection, delivery.number);
}

// Nothing is added any more.
void Dispatcher::fail_all() {
  decltype(streams_) streams;
  decltype(infos_) infos;
  {
    const MutexLock lock(mutex_);
    streams.swap(streams_);
    infos.swap(infos_);
    consumed_ = nullptr;
  }
  for (const auto& [key, stream] : streams) end_closed(*stream);
  for (auto& [query, promise] : infos) promise.set_exception(closed_error());
}

}  // namespace tandem::client
