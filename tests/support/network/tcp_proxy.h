// A TCP proxy on this host for tests: its connections can be cut or held up.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::test {

inline sockaddr_in local_address(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// -1 if nobody listens.
inline int connect_local(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = local_address(port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  ::close(fd);
  return -1;
}

class TcpProxy {
 public:
  explicit TcpProxy(uint16_t target) : target_(target) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = local_address(0);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~TcpProxy() {
    stop_ = true;
    thread_.join();
    close_all();
    ::close(listener_);
  }
  uint16_t port() const { return port_; }
  void cut() { cut_ = true; }                     // all that there are; new ones are welcome
  void hold(bool on) { held_ = on; }              // nothing passes, nothing is closed
  void refuse(bool on) { refusing_ = on; }        // new ones
  int num_connections() const { return count_; }  // ever made

 private:
  void run() {
    while (!stop_) {
      if (cut_.exchange(false)) close_all();
      std::vector<pollfd> fds{{listener_, POLLIN, 0}};
      const bool held = held_;  // it may change during the poll
      if (!held)
        for (const auto& [a, b] : pairs_) fds.insert(fds.end(), {{a, POLLIN, 0}, {b, POLLIN, 0}});
      ::poll(fds.data(), fds.size(), 5);
      std::vector<std::pair<int, int>> left = held ? pairs_ : std::vector<std::pair<int, int>>();
      for (size_t i = 1; i + 1 < fds.size(); i += 2) {
        const bool alive = forward(fds[i], fds[i + 1].fd) && forward(fds[i + 1], fds[i].fd);
        if (alive) {
          left.emplace_back(fds[i].fd, fds[i + 1].fd);
        } else {
          ::close(fds[i].fd), ::close(fds[i + 1].fd);
        }
      }
      pairs_ = std::move(left);
      if (fds[0].revents != 0) accept_one();
    }
  }
  static bool forward(const pollfd& from, int to) {
    if (from.revents == 0) return true;
    char data[65536];
    const ssize_t n = ::recv(from.fd, data, sizeof(data), 0);
    return n > 0 && ::send(to, data, static_cast<size_t>(n), MSG_NOSIGNAL) == n;
  }
  void accept_one() {
    const int a = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (a < 0) return;
    const int b = refusing_ ? -1 : connect_local(target_);
    if (b < 0) {
      ::close(a);
      return;
    }
    ++count_;
    pairs_.emplace_back(a, b);
  }
  void close_all() {
    for (const auto& [a, b] : pairs_) ::close(a), ::close(b);
    pairs_.clear();
  }

  uint16_t target_, port_ = 0;
  int listener_;
  std::atomic<bool> stop_{false}, cut_{false}, held_{false}, refusing_{false};
  std::atomic<int> count_{0};
  std::vector<std::pair<int, int>> pairs_;
  std::thread thread_;
};

}  // namespace tandem::test
