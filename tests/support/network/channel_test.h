// A channel whose peer is a client that the test plays, and coroutines over it, in one thread.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "server/http/connections/channel.h"
#include "tests/support/network/raw_client.h"

namespace tandem::test {

class ChannelTest : public ::testing::Test {
 protected:
  using Tcp = boost::asio::ip::tcp;

  ChannelTest() {
    config.header_timeout = config.body_timeout = config.write_timeout =
        std::chrono::milliseconds(400);
    Tcp::acceptor acceptor(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    client.emplace(acceptor.local_endpoint().port());
    channel = std::make_shared<server::Channel>(acceptor.accept(boost::asio::make_strand(io)),
                                                nullptr, config);
  }
  // Starts a coroutine, which goes on within finish() and run_for().
  template <class T>
  std::future<T> start(boost::asio::awaitable<T> work) {
    return boost::asio::co_spawn(channel->executor(), std::move(work), boost::asio::use_future);
  }
  template <class T>
  T finish(std::future<T> result) {
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready &&
           std::chrono::steady_clock::now() < latest)
      run_for(std::chrono::milliseconds(5));
    EXPECT_EQ(result.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    return result.get();
  }
  template <class T>
  T run(boost::asio::awaitable<T> work) {
    return finish(start(std::move(work)));
  }
  void run_for(std::chrono::milliseconds time) {
    io.restart();
    io.run_for(time);
  }
  // Until it is so.
  template <class What>
  bool run_until(const What& what) {
    for (int i = 0; i < 1000 && !what(); ++i) run_for(std::chrono::milliseconds(5));
    return what();
  }

  server::ServerConfig config;
  boost::asio::io_context io;
  std::optional<RawClient> client;
  std::shared_ptr<server::Channel> channel;
};

}  // namespace tandem::test
