// One TLS connection, as CAF's multiplexer drives it, and the watch over those that have not shown
// yet that they belong here. A session is used from the multiplexer's thread only.
#pragma once

#include <openssl/ssl.h>

#include <caf/io/network/native_socket.hpp>
#include <caf/io/network/rw_state.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace tandem::actors {

// Thread-safe. The sockets are closed by their owners; here they are only shut down.
class HandshakeWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct StoredSession {
    int fd;
    Clock::time_point deadline;
  };
  using Ticket = std::list<StoredSession>::iterator;

  // Shuts the oldest down if there are too many.
  Ticket add(int fd);
  void remove(Ticket ticket);
  // Shuts down those that are late.
  void expire();

 private:
  Mutex mutex_;
  std::list<StoredSession> entries_ GUARDED_BY(mutex_);  // oldest first
};

// Requires a certificate of the configured authority on both sides. Throws std::runtime_error.
class TlsContext {
 public:
  TlsContext(const std::string& ca, const std::string& certificate, const std::string& key);
  ~TlsContext() { SSL_CTX_free(context_); }
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  SSL_CTX* get() const { return context_; }

 private:
  SSL_CTX* context_;
};

class TlsSession {
 public:
  // The descriptor is not owned, but must stay open as long as the session lives.
  TlsSession(const TlsContext& context, int fd, bool server, std::shared_ptr<HandshakeWatch> watch);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  caf::io::network::rw_state read(size_t& result, void* data, size_t size);
  caf::io::network::rw_state write(size_t& result, const void* data, size_t size);
  size_t pending() const { return static_cast<size_t>(SSL_pending(ssl_)); }
  // The peer has shown what it is.
  void end_watch();
  // Every further read fails.
  void refuse() { refused_ = true; }

 private:
  caf::io::network::rw_state result_of(int status);
  caf::io::network::rw_state handshake();
  caf::io::network::rw_state flush_early();

  SSL* ssl_;
  std::shared_ptr<HandshakeWatch> watch_;
  HandshakeWatch::Ticket ticket_;
  bool watched_ = false;
  bool established_ = false;
  bool refused_ = false;
  // What was written before the handshake was over. CAF would go on polling for writability.
  std::vector<char> early_;
};

}  // namespace tandem::actors
