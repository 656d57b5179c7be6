// What stands at an address where a connection has failed, so that the error can say it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::actors {

// Who has issued the certificate of a server of Tandem.
inline constexpr const char* kAuthorityName = "tandem authority";

enum class EndpointKind {
  kNothing,  // nobody listens, or the host is not known or not reached
  kTandem,   // a port of a Tandem server, for clients or for workers
  kTls,      // TLS of somebody else: an HTTPS server, for one
  kHttp,
  kOther,   // it says or does something else
  kSilent,  // it accepts connections and says nothing
};

struct Endpoint {
  EndpointKind kind = EndpointKind::kNothing;
  std::string problem;  // of kNothing: why
};

// Asks once in TLS and, if that is not understood, once in HTTP.
Endpoint probe_endpoint(const std::string& host, uint16_t port, std::chrono::milliseconds timeout);

// Whether trying again cannot help.
bool is_hopeless(EndpointKind kind);

// What a user is to be told of a connection to `address` (host:port) that failed for `reason`.
// port_name: what should have been there, "client port (--client-port, default 7070)".
std::string explain_connection_failure(const Endpoint& endpoint, const std::string& address,
                                       const std::string& reason, const std::string& port_name);

}  // namespace tandem::actors
