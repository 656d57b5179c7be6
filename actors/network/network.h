// Mutual TLS for CAF: publishes actors and connects to them. It replaces the OpenSSL module of CAF
// 0.17. There, a peer that never finishes its handshake stays for ever, and the loop spins
// meanwhile. One peer's TLS error can break another's connection. Each connection reads the files
// anew.
//
// Here a connection has `kHandshakeTimeout` to finish the handshake and send a first header. At
// most `kMaxHandshakes` are under way at a time; the oldest gives way. A message larger than
// `kMaxMessage` ends its connection before memory is allocated for it.
#pragma once

#include <caf/all.hpp>
#include <caf/io/middleman_actor.hpp>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "base/error.h"

namespace tandem::actors {

inline constexpr std::chrono::seconds kHandshakeTimeout{5};
inline constexpr size_t kMaxHandshakes = 512;
inline constexpr size_t kMaxMessage = size_t{256} << 20;  // bytes

// Part of an actor_system (SystemConfig loads it). Where CAF has a place for its own.
class TlsModule : public caf::actor_system::module {
 public:
  explicit TlsModule(caf::actor_system& system) : system_(system) {}
  void start() override;
  void stop() override;
  void init(caf::actor_system_config&) override {}
  id_t id() const override { return openssl_manager; }
  void* subtype_ptr() override { return this; }
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);

 private:
  caf::actor_system& system_;
  caf::actor watchman_;  // ends handshakes that take too long
};

// The actor that publishes and connects, for those who must not block: CAF's interface. A
// connection attempt ends within about twice kHandshakeTimeout.
caf::io::middleman_actor network_actor(caf::actor_system& system);
// Whether to repeat such an attempt. When CAF 0.17 looks for silent peers it gives up all attempts
// under way, however young: they have no "last seen" yet.
bool is_spurious(const caf::error& error);

// Somebody else listens there.
class PortTaken : public InputError {
 public:
  using InputError::InputError;
};

namespace detail {
uint16_t publish(caf::actor_system& system, caf::strong_actor_ptr actor,
                 std::set<std::string> interface, const std::string& host, uint16_t port,
                 const std::string& flag);
caf::strong_actor_ptr connect(caf::actor_system& system, std::set<std::string> interface,
                              const std::string& host, uint16_t port,
                              std::chrono::milliseconds timeout);
}  // namespace detail

// Listens on host:port (0: any free port) and returns the port. Throws InputError naming the flag
// that chose the port, PortTaken if that is why.
template <class Handle>
uint16_t publish(caf::actor_system& system, const Handle& actor, const std::string& host,
                 uint16_t port, const std::string& flag = "--client-port") {
  return detail::publish(system, caf::actor_cast<caf::strong_actor_ptr>(actor),
                         system.message_types(actor), host, port, flag);
}

// Blocks, but not for longer than `timeout`. Throws InputError (kUnavailable).
template <class Handle>
Handle connect(caf::actor_system& system, const std::string& host, uint16_t port,
               std::chrono::milliseconds timeout) {
  return caf::actor_cast<Handle>(detail::connect(
      system, system.message_types(caf::detail::type_list<Handle>{}), host, port, timeout));
}

}  // namespace tandem::actors
