// Strangers at every port that the server and its workers have open: random bytes, half greetings,
// or nothing at all, while others work.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/network/tcp_proxy.h"
#include "tests/support/processes/cluster_cases.h"
#include "tests/support/sanitized.h"

namespace tandem::test::strangers_test {
namespace {

constexpr int64_t kMoreKib =
    (testing_support::kSanitized ? 128 : 32) * 1024;  // a sanitizer keeps more

// What a TLS client says first: a record header, and as much of a ClientHello as there is.
std::string hello_start(std::mt19937& random) {
  std::string bytes("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  const size_t more = random() % 500;
  for (size_t i = 0; i < more; ++i) bytes.push_back(static_cast<char>(random()));
  return bytes.substr(0, 1 + random() % bytes.size());
}

std::string random_bytes(std::mt19937& random) {
  std::string bytes(1 + random() % 3000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Connects, says that, and leaves: politely, at once, or only when the other side does.
void visit(uint16_t port, const std::string& bytes, unsigned manner) {
  const int fd = connect_local(port);
  if (fd < 0) return;
  (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (manner % 3 == 0) {
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  } else if (manner % 3 == 1) {
    pollfd waiting{fd, POLLIN, 0};
    ::poll(&waiting, 1, 20);
  }
  ::close(fd);
}

TEST(Strangers, DisturbNobody) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  Server server({"--tp", "2"});
  auto client = client::Client::connect(server.client_options());
  const auto& cases = sound_cases();
  Load load(client, cases, 50);
  EXPECT_TRUE(load.progress(50));
  const std::set<uint16_t> ports{server.port(), server.cluster_port()};
  EXPECT_TRUE(eventually(5s, [&] {  // the kernel's table may lack a line while sockets come and go
    std::set<uint16_t> open;
    for (const Listener& l : listeners(server.processes())) open.insert(l.port);
    return open == ports;
  }));
  const int fds = num_fds(server.pid());
  const int64_t kib = resident_kib(server.pid());
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i)
    for (const uint16_t port : {server.port(), server.cluster_port()})
      if (const int fd = connect_local(port); fd >= 0) idle.push_back(fd);
  for (int round = 0; round < 40; ++round)
    for (const uint16_t port : ports)
      visit(port, round % 2 == 0 ? random_bytes(random) : hello_start(random), random());
  EXPECT_TRUE(load.progress(100)) << "a stall";
  // A newcomer is let in beside them all.
  {
    auto second = client::Client::connect(server.client_options());
    EXPECT_EQ(second.server_info().num_restarts(), 0);
  }
  EXPECT_EQ(server.ups(), 1) << "the workers were disturbed";
  for (const int fd : idle) ::close(fd);
  EXPECT_TRUE(load.progress(50));
  load.expect_all_well();
  expect_idle(client);
  EXPECT_TRUE(eventually(10s, [&] { return num_fds(server.pid()) <= fds + 4; }))
      << num_fds(server.pid()) << " descriptors, " << fds << " before";
  EXPECT_LE(resident_kib(server.pid()), kib + kMoreKib);
  client.close();
  server.expect_clean_end();
}

}  // namespace
}  // namespace tandem::test::strangers_test
