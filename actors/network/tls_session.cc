// OpenSSL keeps errors in a queue of the thread, which all connections share: it is emptied before
// every call, or one peer's broken handshake would look like another's.
#include "actors/network/tls_session.h"

#include <openssl/err.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <stdexcept>
#include <string>

#include "actors/network/network.h"

namespace tandem::actors {
namespace {

using caf::io::network::rw_state;

constexpr size_t kMaxEarly = 64 << 10;  // bytes; CAF's greeting is a few hundred

// Writing to a closed socket raises SIGPIPE. Blocked for the multiplexer's thread, once.
void block_sigpipe() {
  thread_local const bool blocked = [] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return ::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0;
  }();
  (void)blocked;
}

}  // namespace

// --- Watch ---------------------------------------------------------------------------------------

HandshakeWatch::Ticket HandshakeWatch::add(int fd) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxHandshakes) {
    // It may stand first for a moment yet; the next is not shut down twice.
    for (StoredSession& entry : entries_) {
      if (entry.deadline == Clock::time_point::min()) continue;
      ::shutdown(entry.fd, SHUT_RDWR);
      entry.deadline = Clock::time_point::min();
      break;
    }
  }
  return entries_.insert(entries_.end(), {fd, Clock::now() + kHandshakeTimeout});
}

void HandshakeWatch::remove(Ticket ticket) {
  const MutexLock lock(mutex_);
  entries_.erase(ticket);
}

void HandshakeWatch::expire() {
  const MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (StoredSession& entry : entries_) {
    if (entry.deadline > now) break;
    ::shutdown(entry.fd, SHUT_RDWR);  // its owner sees the end, and closes it
  }
}

// --- Context -------------------------------------------------------------------------------------

TlsContext::TlsContext(const std::string& ca, const std::string& certificate,
                       const std::string& key)
    : context_(SSL_CTX_new(TLS_method())) {
  ERR_clear_error();
  if (context_ == nullptr || SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) != 1 ||
      SSL_CTX_use_certificate_chain_file(context_, certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context_, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context_) != 1 ||
      SSL_CTX_load_verify_locations(context_, ca.c_str(), nullptr) != 1) {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    const std::string message =
        std::string("TLS: cannot use the credentials: ") + (reason ? reason : "unknown error");
    ERR_clear_error();
    SSL_CTX_free(context_);
    throw std::runtime_error(message);
  }
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(context_, 1);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
}

// --- Session -------------------------------------------------------------------------------------

TlsSession::TlsSession(const TlsContext& context, int fd, bool server,
                       std::shared_ptr<HandshakeWatch> watch)
    : ssl_(SSL_new(context.get())), watch_(std::move(watch)) {
  ERR_clear_error();
  if (ssl_ == nullptr || SSL_set_fd(ssl_, fd) != 1) {
    SSL_free(ssl_);
    throw std::runtime_error("TLS: cannot make a session");
  }
  if (server) {
    SSL_set_accept_state(ssl_);
  } else {
    SSL_set_connect_state(ssl_);
  }
  ticket_ = watch_->add(fd);
  watched_ = true;
}

TlsSession::~TlsSession() {
  end_watch();
  SSL_free(ssl_);
}

void TlsSession::end_watch() {
  if (watched_) watch_->remove(ticket_);
  watched_ = false;
}

// `success` with nothing transferred: CAF polls and comes again.
rw_state TlsSession::result_of(int status) {
  switch (SSL_get_error(ssl_, status)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return rw_state::success;
    default: ERR_clear_error(); return rw_state::failure;
  }
}

rw_state TlsSession::handshake() {
  if (established_) return rw_state::success;
  const int status = SSL_do_handshake(ssl_);
  if (status != 1) return result_of(status);
  established_ = true;
  return rw_state::success;
}

rw_state TlsSession::flush_early() {
  if (!established_ || early_.empty()) return rw_state::success;
  const int n = SSL_write(ssl_, early_.data(), static_cast<int>(early_.size()));
  if (n <= 0) return result_of(n);
  early_.erase(early_.begin(), early_.begin() + n);
  return rw_state::success;
}

rw_state TlsSession::read(size_t& result, void* data, size_t size) {
  block_sigpipe();
  ERR_clear_error();
  result = 0;
  if (refused_) return rw_state::failure;
  if (handshake() == rw_state::failure || flush_early() == rw_state::failure)
    return rw_state::failure;
  if (!established_) return rw_state::success;
  if (size == 0) return rw_state::indeterminate;
  const int n = SSL_read(ssl_, data, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  if (n <= 0) return result_of(n);
  result = static_cast<size_t>(n);
  return rw_state::success;
}

rw_state TlsSession::write(size_t& result, const void* data, size_t size) {
  block_sigpipe();
  ERR_clear_error();
  result = 0;
  if (handshake() == rw_state::failure || flush_early() == rw_state::failure)
    return rw_state::failure;
  if (size == 0) return rw_state::indeterminate;
  if (!established_ || !early_.empty()) {
    if (early_.size() + size > kMaxEarly) return rw_state::failure;
    const char* const bytes = static_cast<const char*>(data);
    early_.insert(early_.end(), bytes, bytes + size);
    result = size;
    return rw_state::success;
  }
  const int n = SSL_write(ssl_, data, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  if (n <= 0) return result_of(n);
  result = static_cast<size_t>(n);
  return rw_state::success;
}

}  // namespace tandem::actors
