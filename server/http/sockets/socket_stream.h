// A connection's bytes, with TLS or without. On the connection's strand.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <memory>
#include <utility>

namespace tandem::server {

class Stream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;
  using lowest_layer_type = Socket::lowest_layer_type;
  using Tls = boost::asio::ssl::stream<Socket&>;

  // tls: null for a plain one; outlives the stream.
  Stream(Socket socket, boost::asio::ssl::context* tls) : socket_(std::move(socket)) {
    if (tls != nullptr) tls_ = std::make_unique<Tls>(socket_, *tls);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Socket& socket() { return socket_; }
  Tls* tls() { return tls_.get(); }
  executor_type get_executor() { return socket_.get_executor(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return socket_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return socket_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  Socket socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace tandem::server
