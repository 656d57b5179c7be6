// The TLS handshake shows the server's certificate before the server asks for the client's: a
// server of Tandem is known by its issuer. Sockets do not block; one deadline is for all.
#include "actors/network/endpoint_probe.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>

namespace tandem::actors {
namespace {

using Clock = std::chrono::steady_clock;

template <auto free>
struct FreeWith {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// False when the time is over.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd poll{fd, events, 0};
  return left.count() > 0 && ::poll(&poll, 1, static_cast<int>(left.count())) == 1;
}

// The error of connecting, 0 if it worked.
int try_connect(int fd, const addrinfo& address, Clock::time_point deadline) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  int error = ETIMEDOUT;
  socklen_t size = sizeof(error);
  if (wait_for(fd, POLLOUT, deadline) && ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    error = errno;
  return error;
}

// A connected socket, or -1 and the problem.
int open_socket(const std::string& host, uint16_t port, Clock::time_point deadline,
                std::string& problem) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list)) {
    problem = gai_strerror(error);
    return -1;
  }
  const std::unique_ptr<addrinfo, FreeWith<::freeaddrinfo>> owner(list);
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    const int error = try_connect(fd, *a, deadline);
    if (error == 0) return fd;
    problem = std::generic_category().message(error);
    ::close(fd);
  }
  return -1;
}

bool is_tandem(X509* certificate) {
  std::array<char, 64> name{};
  if (certificate == nullptr) return false;
  X509_NAME_get_text_by_NID(X509_get_issuer_name(certificate), NID_commonName, name.data(),
                            static_cast<int>(name.size()));
  return std::string_view(name.data()) == kAuthorityName;
}

// kTandem or kTls; kOther: it is not TLS; kSilent: nothing came.
EndpointKind ask_in_tls(int fd, Clock::time_point deadline) {
  const std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<SSL, FreeWith<SSL_free>> ssl(context ? SSL_new(context.get()) : nullptr);
  if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) return EndpointKind::kOther;
  for (;;) {
    ERR_clear_error();
    const int status = SSL_connect(ssl.get());
    const std::unique_ptr<X509, FreeWith<X509_free>> certificate(
        SSL_get1_peer_certificate(ssl.get()));
    if (is_tandem(certificate.get())) return EndpointKind::kTandem;
    if (status == 1 || certificate) return EndpointKind::kTls;
    const int error = SSL_get_error(ssl.get(), status);
    ERR_clear_error();
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return EndpointKind::kOther;
    if (!wait_for(fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline))
      return EndpointKind::kSilent;
  }
}

// kHttp, kOther or kSilent.
EndpointKind ask_in_http(int fd, Clock::time_point deadline) {
  static constexpr std::string_view kQuestion =
      "HEAD / HTTP/1.1\r\nHost: tandem\r\n"
      "Connection: close\r\n\r\n";
  static constexpr std::string_view kAnswer = "HTTP/";
  if (::send(fd, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) < 0) return EndpointKind::kOther;
  std::string answer;
  while (answer.size() < kAnswer.size()) {
    if (!wait_for(fd, POLLIN, deadline)) return EndpointKind::kSilent;
    std::array<char, 64> bytes;
    const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (n <= 0) return EndpointKind::kOther;
    answer.append(bytes.data(), static_cast<size_t>(n));
  }
  return answer.starts_with(kAnswer) ? EndpointKind::kHttp : EndpointKind::kOther;
}

}  // namespace

Endpoint probe_endpoint(const std::string& host, uint16_t port, std::chrono::milliseconds timeout) {
  const auto begun = Clock::now();
  Endpoint out;
  {
    const Socket socket(open_socket(host, port, begun + timeout, out.problem));
    if (socket.fd() < 0) return out;
    out.kind = ask_in_tls(socket.fd(), begun + timeout / 2);
  }
  if (out.kind == EndpointKind::kTandem || out.kind == EndpointKind::kTls) return out;
  const Socket socket(open_socket(host, port, begun + timeout, out.problem));
  if (socket.fd() < 0) return out;
  const EndpointKind http = ask_in_http(socket.fd(), begun + timeout);
  if (http == EndpointKind::kHttp || out.kind == EndpointKind::kSilent) out.kind = http;
  return out;
}

bool is_hopeless(EndpointKind kind) {
  return kind == EndpointKind::kTls || kind == EndpointKind::kHttp || kind == EndpointKind::kOther;
}

std::string explain_connection_failure(const Endpoint& endpoint, const std::string& address,
                                       const std::string& reason, const std::string& port_name) {
  switch (endpoint.kind) {
    case EndpointKind::kNothing:
      return "nothing listens at " + address + " (" + endpoint.problem +
             "): start `tandem serve MODEL` there, or give the address of its " + port_name;
    case EndpointKind::kTandem:
      return address + " is a port of a Tandem server, but the connection failed: " + reason +
             "; give the server's " + port_name +
             ", and with --access-file the access file that its log names, or a copy of that";
    case EndpointKind::kTls:
      return address +
             " answers TLS, but not as Tandem does: it may be the HTTPS port of a "
             "server; give its " +
             port_name;
    case EndpointKind::kHttp:
      return address + " answers HTTP: that is the HTTP port of a server; give its " + port_name;
    case EndpointKind::kOther:
      return address +
             " is no port of a Tandem server: it answers neither TLS nor HTTP; give the "
             "server's " +
             port_name;
    case EndpointKind::kSilent: break;
  }
  return address + " accepts connections, but says nothing (" + reason + "); give the server's " +
         port_name;
}

}  // namespace tandem::actors
