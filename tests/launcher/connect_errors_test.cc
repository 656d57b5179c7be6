// `--connect` to the wrong place: what was found there, at once.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using testing::ProcessResult;
using testing::tandem;

// Listens on loopback. To each connection: reads once, then says `answer` (empty: nothing, and
// stays).
class Listener {
 public:
  explicit Listener(std::string answer) : answer_(std::move(answer)) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Listener() {
    stopping_ = true;
    thread_.join();
    ::close(fd_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void run() {
    std::vector<int> open;
    while (!stopping_) {
      pollfd poll{fd_, POLLIN, 0};
      if (::poll(&poll, 1, 20) != 1) continue;
      const int fd = ::accept(fd_, nullptr, nullptr);
      open.push_back(fd);
      if (answer_.empty()) continue;
      char bytes[512];
      [[maybe_unused]] const auto n = ::recv(fd, bytes, sizeof(bytes), 0);
      ::send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      ::shutdown(fd, SHUT_WR);
    }
    for (const int fd : open) ::close(fd);
  }

  std::string answer_;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

struct Answer {
  ProcessResult result;
  double seconds;
};

Answer connect(const std::string& command, const std::string& address) {
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::string> args{command, "--connect", address};
  if (command == "generate") args.emplace_back("text");
  ProcessResult result = tandem(args);
  return {std::move(result),
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()};
}

// The whole of it would be 10 s; a busy machine gets some of that.
void expect_at_once(const Answer& answer, const std::vector<std::string>& words, int status = 1) {
  EXPECT_EQ(answer.result.status, status);
  EXPECT_LT(answer.seconds, 5) << answer.result.err;
  for (const std::string& word : words)
    EXPECT_NE(answer.result.err.find(word), std::string::npos) << answer.result.err;
}

TEST(ConnectErrors, AnAddressWithoutAPort) {
  expect_at_once(connect("generate", "127.0.0.1"), {"127.0.0.1", "no port", "7070"}, /*status=*/2);
  expect_at_once(connect("generate", "http://127.0.0.1:8000"), {"URL", "7070"}, 2);
  expect_at_once(connect("worker", "127.0.0.1"), {"127.0.0.1", "no port"}, 2);
}

TEST(ConnectErrors, AnHttpPort) {
  const Listener http("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  expect_at_once(connect("generate", http.address()), {http.address(), "answers HTTP", "7070"});
  expect_at_once(connect("worker", http.address()),
                 {http.address(), "answers HTTP", "worker port"});
}

TEST(ConnectErrors, AnotherProtocol) {
  const Listener mail("220 mail.example.org ESMTP\r\n");
  expect_at_once(connect("generate", mail.address()), {mail.address(), "neither TLS nor HTTP"});
}

TEST(ConnectErrors, WhereNobodyListens) {
  std::string address;
  {
    const Listener gone("x");
    address = gone.address();
  }
  expect_at_once(connect("generate", address),
                 {"nothing listens at " + address, "start `tandem serve MODEL`", "7070"});
  expect_at_once(connect("worker", address),
                 {"nothing listens at " + address, "start `tandem serve MODEL`"});
}

TEST(ConnectErrors, WhereNobodySpeaks) {
  const Listener silent("");
  expect_at_once(connect("generate", silent.address()), {silent.address(), "says nothing"});
}

}  // namespace
}  // namespace tandem
