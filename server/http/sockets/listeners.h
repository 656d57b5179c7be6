// The ports that the server listens at: one for each address of its host, all with the same number.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <list>

#include "server/http/config.h"

namespace tandem::server {

class Listeners {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // Opens them: nobody is taken yet. Throws InputError naming the flag: a host that does not
  // resolve, a port in use.
  Listeners(boost::asio::io_context& io, const ServerConfig& config);

  // on_socket is called for each connection, on the threads of io, several at a time.
  void accept(std::function<void(Socket)> on_socket);
  uint16_t port() const { return port_; }
  // Whether only programs of this host reach them.
  bool local() const { return local_; }
  // Any thread.
  void close();

 private:
  struct Listener {
    explicit Listener(boost::asio::io_context& io);
    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer pause;
  };
  boost::system::error_code open(const boost::asio::ip::tcp::endpoint& endpoint, bool alone);
  void accept_one(Listener& listener);

  boost::asio::io_context& io_;
  std::list<Listener> listeners_;
  std::function<void(Socket)> on_socket_;
  uint16_t port_ = 0;
  bool local_ = true;
};

}  // namespace tandem::server
