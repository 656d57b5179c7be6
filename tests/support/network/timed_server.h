// An HTTP server whose answers come at times that the test writes. A thread for each connection,
// on loopback; with TLS if wanted.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::test {

struct TimedRequest {
  std::string method, path, head, body;
};

struct TimedAnswer {
  int status = 200;
  std::string type = "text/event-stream";
  // Each is written at once, so long after the one before.
  std::vector<std::pair<std::chrono::milliseconds, std::string>> writes;
  bool chunked = true;  // false: until the connection closes
  bool cut = false;     // closes without the last chunk
};

// A certificate for 127.0.0.1, signed by itself, and its key.
class SelfSigned {
 public:
  SelfSigned() : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("127.0.0.1"), -1, -1, 0);
    X509_set_issuer_name(certificate_, name);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate_, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate_, key_, EVP_sha256());
  }
  SelfSigned(const SelfSigned&) = delete;
  ~SelfSigned() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  std::string pem() const {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate_);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(bio, &bytes);
    std::string out(bytes, static_cast<size_t>(size));
    BIO_free(bio);
    return out;
  }
  SSL_CTX* context() const {
    SSL_CTX* context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context, certificate_);
    SSL_CTX_use_PrivateKey(context, key_);
    return context;
  }

 private:
  EVP_PKEY* key_;
  X509* certificate_;
};

class TimedServer {
 public:
  // number: of the request, from 0, as they came.
  using Answerer = std::function<TimedAnswer(const TimedRequest& request, int number)>;

  explicit TimedServer(Answerer answerer, const SelfSigned* tls = nullptr)
      : answerer_(std::move(answerer)), tls_(tls != nullptr ? tls->context() : nullptr) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 512), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  TimedServer(const TimedServer&) = delete;
  ~TimedServer() {
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
    }
    stop_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : fds_) close(fd);
    close(listener_);
    SSL_CTX_free(tls_);
  }

  std::string url() const {
    return (tls_ != nullptr ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
  }
  std::vector<TimedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t connections() const {
    const std::lock_guard lock(mutex_);
    return fds_.size();
  }

 private:
  struct Connection {
    int fd;
    SSL* ssl = nullptr;
    bool write(const std::string& bytes) const {
      if (ssl != nullptr) return SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size())) > 0;
      return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(bytes.size());
    }
    bool read(std::string& to) const {
      char bytes[16384];
      const ssize_t n =
          ssl != nullptr ? SSL_read(ssl, bytes, sizeof bytes) : recv(fd, bytes, sizeof bytes, 0);
      if (n > 0) to.append(bytes, static_cast<size_t>(n));
      return n > 0;
    }
  };

  void accept_all() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::lock_guard lock(mutex_);
      fds_.push_back(fd);
      threads_.emplace_back([this, fd] {
        Connection connection{fd};
        if (tls_ != nullptr) {
          connection.ssl = SSL_new(tls_);
          SSL_set_fd(connection.ssl, fd);
          if (SSL_accept(connection.ssl) == 1) serve(connection);
          SSL_free(connection.ssl);
        } else {
          serve(connection);
        }
        shutdown(fd, SHUT_RDWR);
      });
    }
  }

  void serve(const Connection& connection) {
    std::string bytes;
    while (true) {
      size_t end;
      while ((end = bytes.find("\r\n\r\n")) == std::string::npos)
        if (!connection.read(bytes)) return;
      TimedRequest request;
      request.head = bytes.substr(0, end + 2);
      bytes.erase(0, end + 4);
      const size_t space = request.head.find(' ');
      request.method = request.head.substr(0, space);
      request.path = request.head.substr(space + 1, request.head.find(' ', space + 1) - space - 1);
      const size_t at = request.head.find("Content-Length: ");
      const size_t size =
          at == std::string::npos ? 0 : std::stoul(request.head.substr(at + 16, 12));
      while (bytes.size() < size)
        if (!connection.read(bytes)) return;
      request.body = bytes.substr(0, size);
      bytes.erase(0, size);
      int number;
      {
        const std::lock_guard lock(mutex_);
        number = static_cast<int>(requests_.size());
        requests_.push_back(request);
      }
      if (!answer(connection, answerer_(request, number))) return;
    }
  }

  // Whether the connection stays.
  bool answer(const Connection& connection, const TimedAnswer& answer) {
    if (!connection.write("HTTP/1.1 " + std::to_string(answer.status) +
                          " X\r\nContent-Type: " + answer.type +
                          (answer.chunked ? "\r\nTransfer-Encoding: chunked\r\n\r\n"
                                          : "\r\nConnection: close\r\n\r\n")))
      return false;
    for (const auto& [wait, text] : answer.writes) {
      if (std::unique_lock lock(mutex_); stop_.wait_for(lock, wait, [this] { return stopping_; }))
        return false;
      char size[32];
      std::snprintf(size, sizeof size, "%zx\r\n", text.size());
      if (!connection.write(answer.chunked ? size + text + "\r\n" : text)) return false;
    }
    return answer.chunked && !answer.cut && connection.write("0\r\n\r\n");
  }

  const Answerer answerer_;
  SSL_CTX* const tls_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread accepting_;
  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::vector<TimedRequest> requests_;
  std::vector<int> fds_;
  std::vector<std::thread> threads_;
};

// Events of streams.
inline std::string completion_event(const std::string& text, const std::string& finish = "null") {
  return R"(data: {"choices": [{"index": 0, "text": ")" + text + R"(", "finish_reason": )" +
         finish + "}]}\n\n";
}
inline std::string chat_event(const std::string& delta, const std::string& finish = "null") {
  return R"(data: {"choices": [{"index": 0, "delta": )" + delta + R"(, "finish_reason": )" +
         finish + "}]}\n\n";
}
inline std::string usage_event(int input, int output) {
  return R"(data: {"choices": [], "usage": {"prompt_tokens": )" + std::to_string(input) +
         R"(, "completion_tokens": )" + std::to_string(output) + "}}\n\n";
}
inline const char kDone[] = "data: [DONE]\n\n";

// `count` tokens, so far apart, and the end.
inline TimedAnswer token_stream(int count, std::chrono::milliseconds apart, bool usage = true) {
  TimedAnswer answer;
  for (int i = 0; i < count; ++i)
    answer.writes.emplace_back(apart,
                               completion_event("word ", i + 1 < count ? "null" : "\"length\""));
  answer.writes.emplace_back(0, (usage ? usage_event(7, count) : "") + kDone);
  return answer;
}
inline TimedAnswer json_answer(int status, const std::string& body) {
  return {status, "application/json", {{std::chrono::milliseconds(0), body}}};
}

}  // namespace tandem::test
