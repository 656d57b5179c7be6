// Peers on the TLS port that mean no good, while an honest client streams: it must not notice, and
// nothing of them may stay.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <caf/io/all.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "actors/network/network.h"
#include "actors/network/tls_session.h"
#include "client/tandem_client.h"
#include "tests/support/engine/fake_engine.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"
#include "tests/support/network/tcp_proxy.h"
#include "tests/support/sanitized.h"

namespace tandem::actors {
namespace {

using namespace std::chrono_literals;

int64_t num_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

template <class F>
bool eventually(F&& condition) {
  for (int i = 0; i < 1500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

class Socket {
 public:
  explicit Socket(uint16_t port) : fd_(test::connect_local(port)) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  void send(const std::string& data) const {
    (void)!::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
  }
  // The peer has closed it.
  bool ended() const {
    char byte;
    const ssize_t n = ::recv(fd_, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }

 private:
  int fd_;
};

// What OpenSSL says first.
std::string client_hello() {
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  SSL* ssl = SSL_new(context);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, in, out);
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  std::string hello(data, static_cast<size_t>(size));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

// A peer with good credentials that speaks TLS, but not CAF's protocol.
class TlsPeer {
 public:
  TlsPeer(uint16_t port, const Credentials& credentials)
      : files_(credentials),
        context_(files_.ca(), files_.certificate(), files_.key()),
        socket_(port),
        ssl_(SSL_new(context_.get())) {
    SSL_set_fd(ssl_, socket_.fd());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsPeer() { SSL_free(ssl_); }
  bool connected() const { return connected_; }
  void send(const std::string& data) {
    SSL_write(ssl_, data.data(), static_cast<int>(data.size()));
  }
  // Waits until the server has closed the connection; false: it did not.
  bool ends() {
    const timeval patience{15, 0};
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char data[4096];
    int n = 0;
    while ((n = SSL_read(ssl_, data, sizeof(data))) > 0) continue;
    return SSL_get_error(ssl_, n) != SSL_ERROR_WANT_READ;
  }

 private:
  CredentialFiles files_;
  TlsContext context_;
  Socket socket_;
  SSL* ssl_;
  bool connected_ = false;
};

class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() {
    ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1);
    server_ = std::make_unique<test::FakeEngineServer>();
    client_ =
        std::make_unique<client::Client>(client::Client::connect({.address = server_->address}));
    before_ = num_descriptors();
    request_ =
        std::make_unique<client::RequestHandle>(client_->submit({.prompt = "count 1000000"}));
    EXPECT_TRUE(request_->next_chunk());
  }
  // The good client has been served all along by one connection, and nothing was left behind.
  void expect_unharmed(int num_clients = 1) {
    EXPECT_TRUE(eventually([&] { return num_descriptors() <= before_; }))
        << num_descriptors() << " descriptors, " << before_ << " before";
    EXPECT_TRUE(request_->next_chunk());
    EXPECT_TRUE(request_->next_chunk());
    EXPECT_EQ(client_->server_info().model(), "fake");
    EXPECT_EQ(server_->counters->hellos, num_clients);
    EXPECT_EQ(server_->counters->clients_gone, num_clients - 1);
    EXPECT_NO_THROW(client::Client::connect({.address = server_->address}));
  }
  void expect_refused(const Credentials* credentials) {
    SystemConfig config(SystemOptions(), credentials);
    caf::actor_system system(config);
    EXPECT_INPUT_ERROR(connect<EngineHandle>(system, "127.0.0.1", server_->port, 10s),
                       "cannot connect");
  }

  test::TempDir directory_;
  std::unique_ptr<test::FakeEngineServer> server_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<client::RequestHandle> request_;
  int64_t before_ = 0;
};

TEST_F(NetworkTest, Garbage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    const Socket socket(server_->port);
    std::string data(random() % 5000, '\0');
    for (char& c : data) c = static_cast<char>(random());
    if (i % 2) data = "\x16\x03\x01" + data;  // looks like TLS for a moment
    if (i % 10 == 0) data = "GET / HTTP/1.1\r\n\r\n";
    socket.send(data);
  }
  expect_unharmed();
}

TEST_F(NetworkTest, IdleConnectionsAreClosed) {
  std::vector<Socket> sockets;
  for (int i = 0; i < 200; ++i) sockets.emplace_back(server_->port);
  EXPECT_EQ(client_->server_info().model(), "fake");
  for (const Socket& socket : sockets) EXPECT_TRUE(eventually([&] { return socket.ended(); }));
  sockets.clear();
  expect_unharmed();
}

TEST_F(NetworkTest, HandshakesThatNeverEnd) {
  const std::string hello = client_hello();
  std::vector<Socket> sockets;
  for (int i = 0; i < 50; ++i) {
    sockets.emplace_back(server_->port);
    sockets.back().send(hello.substr(0, i % 2 ? hello.size() : hello.size() / 2));
  }
  char data[65536];
  for (const Socket& socket : sockets)
    EXPECT_TRUE(eventually([&] {
      return ::recv(socket.fd(), data, sizeof(data), MSG_DONTWAIT) == 0 || socket.ended();
    }));
  sockets.clear();
  expect_unharmed();
}

TEST_F(NetworkTest, MoreHandshakesThanAllowed) {
  std::vector<Socket> sockets;
  for (size_t i = 0; i < kMaxHandshakes + 100; ++i) sockets.emplace_back(server_->port);
  EXPECT_NO_THROW(client::Client::connect({.address = server_->address}));
  sockets.clear();
  EXPECT_TRUE(eventually([&] { return server_->counters->clients_gone == 1; }));
  expect_unharmed(/*num_clients=*/2);
}

TEST_F(NetworkTest, MessagesThatNeverEndOrAreTooLarge) {
  {
    TlsPeer half(server_->port, server_->authority.issue("peer"));
    ASSERT_TRUE(half.connected());
    half.send("half a header");
    EXPECT_TRUE(half.ends());
    TlsPeer silent(server_->port, server_->authority.issue("peer"));
    EXPECT_TRUE(silent.ends());
    // CAF's client_handshake (1) with a payload that does not come; and one of 4 GiB.
    const std::string rest(24, '\0');
    TlsPeer stopped(server_->port, server_->authority.issue("peer"));
    stopped.send(std::string("\1\0\0\0\0\0\1\0", 8) + rest);
    EXPECT_TRUE(stopped.ends());
    TlsPeer large(server_->port, server_->authority.issue("peer"));
    large.send(std::string("\1\0\0\0\377\377\377\360", 8) + rest);
    EXPECT_TRUE(large.ends());
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  if (!testing_support::kSanitized) {
    EXPECT_LT(usage.ru_maxrss, 2 << 20) << "KiB";
  }
  expect_unharmed();
}

TEST_F(NetworkTest, PeersWithoutTls) {
  {
    caf::actor_system_config config;
    config.load<caf::io::middleman>();
    config.set("logger.console", caf::atom("none"));
    caf::actor_system system(config);
    const auto result = system.middleman().remote_actor<caf::actor>("127.0.0.1", server_->port);
    EXPECT_FALSE(result);
  }
  expect_unharmed();
}

TEST_F(NetworkTest, StrangersCertificates) {
  CertificateAuthority other;
  const Credentials stranger = other.issue("stranger");
  expect_refused(&stranger);
  // Believes the server, is not believed.
  Credentials mixed = stranger;
  mixed.ca = server_->authority.issue("x").ca;
  expect_refused(&mixed);
  // Is believed, does not believe the server.
  mixed = server_->authority.issue("x");
  mixed.ca = stranger.ca;
  expect_refused(&mixed);
  expect_unharmed();
}

TEST_F(NetworkTest, ConnectingToWhatDoesNotAnswer) {
  const Credentials credentials = server_->authority.issue("x");
  SystemConfig config(SystemOptions(), &credentials);
  caf::actor_system system(config);
  EXPECT_INPUT_ERROR(connect<EngineHandle>(system, "127.0.0.1", 1, 10s), "cannot connect");
  // Accepts, and says nothing.
  test::TcpProxy proxy(server_->port);
  proxy.hold(true);
  EXPECT_INPUT_ERROR(connect<EngineHandle>(system, "127.0.0.1", proxy.port(), 3s),
                     "cannot connect");
  EXPECT_INPUT_ERROR(connect<WorkerHandle>(system, "127.0.0.1", server_->port, 10s),
                     "another kind of server");
  EXPECT_INPUT_ERROR(publish(system, server_->engine(), "127.0.0.1", server_->port),
                     "cannot listen");
}

// However its threads take their turns: one that waited for ever would be killed by the alarm.
TEST(Network, EverySystemEnds) {
  const Credentials credentials = CertificateAuthority().issue("x");
  ::alarm(60);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        SystemConfig config(SystemOptions(), &credentials);
        const caf::actor_system system(config);
      }
    });
  for (std::thread& thread : threads) thread.join();
  ::alarm(0);
}

}  // namespace
}  // namespace tandem::actors
