// The addresses that a server listens at.
#include "server/http/sockets/listeners.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/error.h"
#include "tests/support/network/echo_server.h"

namespace tandem::server {
namespace {

using test::Echo;
using test::HttpServerTest;
using test::status_of_answer;

// Both addresses of this host, on one port.
TEST_F(HttpServerTest, Localhost) {
  config.host = "localhost";
  start();
  EXPECT_TRUE(server->is_local());
  EXPECT_EQ(status_of_answer(ask("GET /a HTTP/1.0\r\n\r\n")), 200);
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(server->port());
  to.sin6_addr = in6addr_loopback;
  if (fd < 0) GTEST_SKIP() << "no IPv6";
  const int connected = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to);
  const int error = errno;
  close(fd);
  if (connected != 0 && error == EADDRNOTAVAIL) GTEST_SKIP() << "no ::1";
  EXPECT_EQ(connected, 0) << error;
}

TEST(HttpServerStart, Addresses) {
  Echo hooks;
  const std::pair<const char*, bool> cases[] = {
      {"127.0.0.1", true}, {"0.0.0.0", false}, {"::1", true}, {"[::1]", true}, {"::", false}};
  for (const auto& [host, local] : cases) {
    ServerConfig config;
    config.port = 0;
    config.host = host;
    try {
      const HttpServer server(config, hooks);
      EXPECT_EQ(server.is_local(), local) << host;
      EXPECT_GT(server.port(), 0) << host;
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "--host") << "a machine without IPv6: " << e.what();
    }
  }
}

}  // namespace
}  // namespace tandem::server
