// A TCP connection to this host that sends what the test writes, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

namespace tandem::test {

using namespace std::chrono_literals;

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  RawClient(const RawClient&) = delete;
  ~RawClient() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Sends no more, but reads.
  void shut_down() { ::shutdown(fd_, SHUT_WR); }
  // False: the server has closed.
  bool send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  // Reads until `enough` is in what has come, the server closes, or the time is over.
  std::string read(const std::string& enough, std::chrono::milliseconds most = 5000ms) {
    const auto deadline = std::chrono::steady_clock::now() + most;
    while (enough.empty() || got_.find(enough) == std::string::npos) {
      pollfd p{fd_, POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0 || poll(&p, 1, static_cast<int>(left.count())) <= 0) break;
      char buffer[65536];
      const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) {
        closed_ = true;
        break;
      }
      got_.append(buffer, static_cast<size_t>(n));
    }
    return std::exchange(got_, {});
  }
  std::string read_all(std::chrono::milliseconds most = 5000ms) { return read("", most); }
  bool closed() const { return closed_; }

 private:
  int fd_;
  std::string got_;
  bool closed_ = false;
};

}  // namespace tandem::test
