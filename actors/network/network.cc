// The TLS sessions inside CAF's broker classes. The middleman actor (one for each system, found in
// the registry) opens ports and connections; the multiplexer's thread runs them.
#include "actors/network/network.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <caf/io/all.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "actors/network/tls_session.h"
#include "base/error.h"

namespace tandem::actors {
namespace {

using Multiplexer = caf::io::network::default_multiplexer;
using caf::io::network::native_socket;
using caf::io::network::rw_state;
using Session = std::unique_ptr<TlsSession>;

const caf::atom_value kRegistryName = caf::atom("TandemTls");
using tick_atom = caf::atom_constant<caf::atom("TlsTick")>;

struct StreamPolicy {
  explicit StreamPolicy(Session s) : session(std::move(s)) {}
  rw_state read_some(size_t& result, native_socket, void* data, size_t size) {
    return session->read(result, data, size);
  }
  rw_state write_some(size_t& result, native_socket, const void* data, size_t size) {
    return session->write(result, data, size);
  }
  bool must_read_more(native_socket, size_t threshold) { return session->pending() >= threshold; }
  Session session;
};

class Scribe : public caf::io::scribe {
 public:
  // Owns the socket.
  Scribe(Multiplexer& multiplexer, native_socket fd, Session session)
      : scribe(caf::io::network::conn_hdl_from_socket(fd)),
        session_(session.get()),
        stream_(multiplexer, fd, std::move(session)) {}

  void configure_read(caf::io::receive_policy::config config) override {
    if (config.second > kMaxMessage) {
      session_->refuse();
      config = caf::io::receive_policy::at_most(1);
    }
    stream_.configure_read(config);
    if (launched_) {  // a whole header has come: from here on CAF's connection-timeout counts
      session_->end_watch();
      return;
    }
    launched_ = true;
    stream_.start(this);
    stream_.force_empty_write(this);  // the handshake begins
  }
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  void flush() override { stream_.flush(this); }
  std::string addr() const override {
    const auto x = caf::io::network::remote_addr_of_fd(stream_.fd());
    return x ? *x : std::string();
  }
  uint16_t port() const override {
    const auto x = caf::io::network::remote_port_of_fd(stream_.fd());
    return x ? *x : uint16_t{0};
  }
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

 private:
  bool launched_ = false;
  TlsSession* session_;  // of the stream, which closes the socket after the session has gone
  caf::io::network::stream_impl<StreamPolicy> stream_;
};

class Doorman : public caf::io::network::doorman_impl {
 public:
  Doorman(Multiplexer& multiplexer, native_socket fd, std::shared_ptr<const TlsContext> context,
          std::shared_ptr<HandshakeWatch> watch)
      : doorman_impl(multiplexer, fd), context_(std::move(context)), watch_(std::move(watch)) {}

  bool new_connection() override {
    if (detached()) return false;
    Multiplexer& multiplexer = acceptor_.backend();
    const native_socket fd = acceptor_.accepted_socket();
    Session session;
    try {
      session = std::make_unique<TlsSession>(*context_, fd, /*server=*/true, watch_);
    } catch (const std::exception&) {
      ::close(fd);
      return false;
    }
    auto scribe = caf::make_counted<Scribe>(multiplexer, fd, std::move(session));
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&multiplexer, handle);
  }

 private:
  std::shared_ptr<const TlsContext> context_;
  std::shared_ptr<HandshakeWatch> watch_;
};

// --- Connecting ----------------------------------------------------------------------------------

// A connected socket, or -1. connect(2) alone could block for minutes.
int connect_to(const addrinfo& address, std::chrono::milliseconds timeout) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int error = ::connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd poll{fd, POLLOUT, 0};
    socklen_t size = sizeof(error);
    if (::poll(&poll, 1, static_cast<int>(timeout.count())) != 1 ||
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = ETIMEDOUT;
  }
  if (error == 0) return fd;
  ::close(fd);
  return -1;
}

int connect_to(const std::string& host, uint16_t port, std::chrono::milliseconds timeout) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return -1;
  int fd = -1;
  for (const addrinfo* a = list; a != nullptr && fd < 0; a = a->ai_next)
    fd = connect_to(*a, timeout);
  ::freeaddrinfo(list);
  return fd;
}

// --- Listening -----------------------------------------------------------------------------------

// A listening socket, or -1 and errno.
int listen_at(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0) return -1;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      ::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, SOMAXCONN) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

// CAF's own does not tell what the system said. The error's context: errno (0: none), its text.
caf::expected<native_socket> open_port(uint16_t port, const char* host) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const int unknown = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &list);
  if (unknown != 0)
    return caf::make_error(caf::sec::cannot_open_port, 0, std::string(::gai_strerror(unknown)));
  int fd = -1, error = 0;
  for (const addrinfo* a = list; a != nullptr && fd < 0; a = a->ai_next) {
    fd = listen_at(*a);
    if (fd < 0 && error == 0) error = errno;
  }
  ::freeaddrinfo(list);
  if (fd < 0)
    return caf::make_error(caf::sec::cannot_open_port, error, std::string(std::strerror(error)));
  return fd;
}

class MiddlemanActor : public caf::io::middleman_actor_impl {
 public:
  MiddlemanActor(caf::actor_config& config, caf::actor broker,
                 std::shared_ptr<HandshakeWatch> watch)
      : middleman_actor_impl(config, std::move(broker)), watch_(std::move(watch)) {}
  const char* name() const override { return "tandem::middleman_actor"; }

 protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& host, uint16_t port) override {
    const int fd = connect_to(host, port, kHandshakeTimeout);
    if (fd < 0) return caf::make_error(caf::sec::cannot_connect_to_node, host, port);
    try {
      const auto context = make_context();
      auto session = std::make_unique<TlsSession>(*context, fd, /*server=*/false, watch_);
      return caf::io::scribe_ptr(caf::make_counted<Scribe>(multiplexer(), fd, std::move(session)));
    } catch (const std::exception& e) {
      ::close(fd);
      return caf::make_error(caf::sec::cannot_connect_to_node, std::string(e.what()));
    }
  }

  caf::expected<caf::io::doorman_ptr> open(uint16_t port, const char* host, bool) override {
    std::shared_ptr<const TlsContext> context;
    try {
      context = make_context();
    } catch (const std::exception& e) {
      return caf::make_error(caf::sec::cannot_open_port, 0, std::string(e.what()));
    }
    auto fd = open_port(port, host);
    if (!fd) return std::move(fd.error());
    return caf::io::doorman_ptr(caf::make_counted<Doorman>(multiplexer(), *fd, context, watch_));
  }

 private:
  Multiplexer& multiplexer() { return static_cast<Multiplexer&>(system().middleman().backend()); }
  std::shared_ptr<const TlsContext> make_context() {
    const caf::actor_system_config& config = system().config();
    return std::make_shared<TlsContext>(config.openssl_cafile, config.openssl_certificate,
                                        config.openssl_key);
  }

  std::shared_ptr<HandshakeWatch> watch_;
};

caf::behavior watchman(caf::event_based_actor* self, std::shared_ptr<HandshakeWatch> watch) {
  constexpr std::chrono::milliseconds interval(250);
  self->delayed_send(self, interval, tick_atom::value);
  return {[self, watch, interval](tick_atom) {
    watch->expire();
    self->delayed_send(self, interval, tick_atom::value);
  }};
}

}  // namespace

// --- Module --------------------------------------------------------------------------------------

void TlsModule::start() {
  auto watch = std::make_shared<HandshakeWatch>();
  auto broker = system_.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  const caf::io::middleman_actor actor =
      system_.spawn<MiddlemanActor, caf::detached + caf::hidden>(std::move(broker), watch);
  watchman_ = system_.spawn<caf::hidden>(watchman, std::move(watch));
  system_.registry().put(kRegistryName, caf::actor_cast<caf::strong_actor_ptr>(actor));
}

// Nobody but this function may monitor the middleman actor when it ends. An actor of the pool that
// did would be told after this thread, perhaps when the pool has stopped: then the message, which
// holds the middleman actor, stays for ever, and CAF waits for the actor's thread.
void TlsModule::stop() {
  const auto actor = network_actor(system_);
  system_.registry().erase(kRegistryName);
  caf::scoped_actor self(system_, true);
  for (const caf::actor& a :
       {std::exchange(watchman_, nullptr), caf::actor_cast<caf::actor>(actor)}) {
    self->send_exit(a, caf::exit_reason::kill);
    self->wait_for(a);
  }
}

caf::actor_system::module* TlsModule::make(caf::actor_system& system, caf::detail::type_list<>) {
  return new TlsModule(system);
}

// --- Functions -----------------------------------------------------------------------------------

caf::io::middleman_actor network_actor(caf::actor_system& system) {
  auto actor = system.registry().get<caf::strong_actor_ptr>(kRegistryName);
  if (!actor) throw std::logic_error("the actor system has no network");
  return caf::actor_cast<caf::io::middleman_actor>(actor);
}

bool is_spurious(const caf::error& error) { return error == caf::sec::connection_timeout; }

namespace detail {

uint16_t publish(caf::actor_system& system, caf::strong_actor_ptr actor,
                 std::set<std::string> interface, const std::string& host, uint16_t port,
                 const std::string& flag) {
  caf::scoped_actor self(system, true);
  uint16_t result = 0;
  caf::error error;
  self->request(network_actor(system), caf::infinite, caf::publish_atom::value, port,
                std::move(actor), std::move(interface), host, /*reuse=*/true)
      .receive([&](uint16_t p) { result = p; }, [&](caf::error& e) { error = std::move(e); });
  if (result != 0) return result;
  const std::string where = flag + ": cannot listen on " + host + ":" + std::to_string(port) + ": ";
  if (!error.context().match_elements<int, std::string>())
    throw InputError(ErrorKind::kInvalidRequest, where + system.render(error), flag);
  const std::string why = error.context().get_as<std::string>(1);
  if (error.context().get_as<int>(0) == EADDRINUSE)
    throw PortTaken(ErrorKind::kUnavailable,
                    where + why + "; try another " + flag + ", or 0 for any free one", flag);
  throw InputError(ErrorKind::kInvalidRequest, where + why, flag);
}

caf::strong_actor_ptr connect(caf::actor_system& system, std::set<std::string> interface,
                              const std::string& host, uint16_t port,
                              std::chrono::milliseconds timeout) {
  caf::scoped_actor self(system, true);
  caf::strong_actor_ptr result;
  std::string reason;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  bool again = true;
  while (again) {
    again = false;
    self->request(network_actor(system), timeout, caf::connect_atom::value, host, port)
        .receive(
            [&](caf::node_id&, caf::strong_actor_ptr& actor, std::set<std::string>& found) {
              if (!actor) {
                reason = "nothing is published there";
              } else if (!system.assignable(found, interface)) {
                reason = "it is another kind of server";
              } else {
                result = std::move(actor);
              }
            },
            [&](caf::error& e) {
              reason = system.render(e);
              again = is_spurious(e) && std::chrono::steady_clock::now() < deadline;
            });
  }
  if (!result)
    throw InputError(ErrorKind::kUnavailable,
                     "cannot connect to " + host + ":" + std::to_string(port) + ": " + reason,
                     "address");
  return result;
}

}  // namespace detail
}  // namespace tandem::actors
