// Ports that somebody else has: one that nobody asked for gives way, one that was asked for is an
// error that says what to do.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/support/processes/server.h"

namespace tandem::test::ports_test {
namespace {

// Listens, as another server would.
class Neighbour {
 public:
  explicit Neighbour(uint16_t port = 0) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(fd_, generic, size) != 0 || listen(fd_, 1) != 0) return;  // it really is another's
    getsockname(fd_, generic, &size);
    port_ = ntohs(address.sin_port);
  }
  ~Neighbour() { close(fd_); }
  std::string port() const { return std::to_string(port_); }

 private:
  int fd_ = socket(AF_INET, SOCK_STREAM, 0);
  uint16_t port_ = 0;
};

std::vector<std::string> serve(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {TANDEM_BINARY, "serve", golden("bart-tiny").string(), "--dtype",
                               "float32", "--threads", "1", "--kv-cache-memory", "16MiB"});
  return flags;
}

TEST(ClientPort, ThatNobodyAskedForGivesWay) {
  const Neighbour neighbour(7070);
  Program server(serve({"--port", "0"}));
  ASSERT_TRUE(server.logged("] ready\n", 60s)) << server.log();
  EXPECT_EQ(server.count_in_log("port 7070 is taken"), 1) << server.log();
  const std::string log = server.log(), words = "listening on 127.0.0.1:";
  const int port = std::atoi(log.c_str() + log.find(words) + words.size());
  EXPECT_GT(port, 0);
  EXPECT_NE(port, 7070);
  const auto file = server.run() / "tandem" / ("client-" + std::to_string(port) + ".json");
  EXPECT_EQ(files_in(server.run()), std::set<std::string>{file.string()});
  client::ClientOptions options;
  options.access_file = file.string();  // it knows the address
  auto client = client::Client::connect(options);
  EXPECT_EQ(client.server_info().replicas_size(), 1);
  client.close();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(30s).value_or(-1), 0);
  server.expect_nothing_left();
}

TEST(Port, ThatWasAskedForIsAnError) {
  const Neighbour neighbour;
  for (const char* flag : {"--client-port", "--port", "--cluster-port"}) {
    SCOPED_TRACE(flag);
    std::vector<std::string> flags{flag, neighbour.port()};
    if (flag != std::string("--port")) flags.insert(flags.end(), {"--port", "0"});
    if (flag != std::string("--client-port")) flags.insert(flags.end(), {"--client-port", "0"});
    if (flag == std::string("--cluster-port"))
      flags.insert(flags.end(), {"--distributed-executor-backend", "join"});
    Program server(serve(flags));
    EXPECT_EQ(server.wait(30s).value_or(-1), 1);
    const std::string log = server.log();
    EXPECT_NE(log.find(std::string("tandem: ") + flag + ": "), std::string::npos) << log;
    EXPECT_NE(log.find(":" + neighbour.port() + ": Address already in use; try another " + flag +
                       ", or 0 for any free one"),
              std::string::npos)
        << log;
    server.expect_nothing_left();
  }
}

}  // namespace
}  // namespace tandem::test::ports_test
