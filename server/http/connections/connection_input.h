// A client's input, and its departure. On the connection's strand; one read at a time.
//
// A closed connection and a half-closed one look the same: the input ends. A closed one answers our
// next bytes with a reset, a half-closed one reads them. So the end of the input does not end an
// answer. If no bytes are due, some are sent after a short while (probe_due()).
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "server/http/sockets/socket_stream.h"

namespace tandem::server {

class ConnectionInput {
 public:
  // on_news is called when anything below may have changed. The stream outlives the input.
  ConnectionInput(Stream& stream, size_t most_bytes, std::function<void()> on_news);

  // Unused bytes.
  boost::asio::const_buffer data() const { return buffer_.data(); }
  size_t size() const { return buffer_.size(); }
  void consume(size_t bytes) { buffer_.consume(bytes); }
  // Whether there is no room for that many more bytes.
  bool full(size_t bytes) const { return buffer_.size() + bytes > buffer_.max_size(); }
  // Skips empty lines, which some clients send before a request (RFC 9112, 2.2). Returns whether
  // other bytes are there.
  bool skip_empty_lines();
  // Frees the buffer, if it is empty.
  void shrink();

  // Reads up to that many bytes, unless a read is pending already or the input has ended. owner
  // keeps the stream and the input alive.
  void read(const std::shared_ptr<void>& owner, size_t bytes);
  // After the end of the input: finds out whether the client is still there.
  void watch_for_reset(const std::shared_ptr<void>& owner);

  bool reading() const { return reading_; }
  bool ended() const { return ended_; }  // the client sends no more
  bool lost() const { return lost_; }    // and reads no more
  // It is time to send something, to see whether the client is there.
  bool probe_due() const { return probe_due_; }

 private:
  void note(const boost::system::error_code& ec);

  Stream& stream_;
  std::function<void()> on_news_;
  boost::beast::flat_buffer buffer_;
  std::vector<char> piece_;  // of the pending read: consume() moves the buffer's end
  boost::asio::steady_timer probe_;
  bool reading_ = false, ended_ = false, lost_ = false;
  bool watching_ = false, probe_due_ = false;
};

}  // namespace tandem::server
