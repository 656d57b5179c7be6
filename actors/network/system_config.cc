// Options of CAF 0.17 (whose names have no prefix there) and the types that cross the network.
#include "actors/network/system_config.h"

#include <caf/io/all.hpp>
#include <charconv>
#include <chrono>

#include "actors/network/network.h"
#include "actors/network/process_limits.h"
#include "base/error.h"

namespace tandem::actors {
namespace {

// What CAF makes besides its pool: the clock's thread; those of connections and of connecting, and
// their descriptors (credentials, polling, a port, a first connection). A system that comes to be
// half made cannot be undone.
constexpr int kClockThreads = 1, kNetworkThreads = 2, kNetworkFiles = 10;

caf::timespan seconds(double s) {
  return std::chrono::duration_cast<caf::timespan>(std::chrono::duration<double>(s));
}

}  // namespace

SystemConfig::SystemConfig(const SystemOptions& options, const Credentials* credentials) {
  check_threads(options.threads + kClockThreads + (credentials != nullptr ? kNetworkThreads : 0));
  check_files(credentials != nullptr ? kNetworkFiles : 0);
  add_message_type<WorkerCommandMessage>("tandem::WorkerCommand");
  add_message_type<WorkerReportMessage>("tandem::WorkerReport");
  add_message_type<ClientMessage>("tandem::ClientMessage");
  add_message_type<ServerMessage>("tandem::ServerMessage");
  add_message_type<ClientHandle>("tandem::ClientHandle");
  add_message_type<EngineHandle>("tandem::EngineHandle");
  add_message_type<WorkerHandle>("tandem::WorkerHandle");
  add_message_type<ReportHandle>("tandem::ReportHandle");

  set("scheduler.policy", caf::atom("sharing"));  // "stealing" polls
  set("scheduler.max-threads", static_cast<size_t>(options.threads));
  set("logger.verbosity", caf::atom("quiet"));
  set("logger.console", caf::atom("none"));
  if (credentials == nullptr) return;
  files_ = std::make_unique<CredentialFiles>(*credentials);
  openssl_cafile = files_->ca();
  openssl_certificate = files_->certificate();
  openssl_key = files_->key();
  set("middleman.heartbeat-interval", seconds(options.heartbeat_interval));
  set("middleman.connection-timeout", seconds(options.peer_timeout));
  set("middleman.workers", size_t{0});  // messages are parsed where they arrive: a hop less
  load<caf::io::middleman>();
  load<TlsModule>();
}

void SystemConfig::replace_credentials(const Credentials& credentials) {
  files_->replace(credentials);
}

std::pair<std::string, uint16_t> parse_address(const std::string& address) {
  if (address.find("://") != std::string::npos)
    throw invalid_request("address", "\"" + address + "\" is a URL; expected host:port");
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    throw invalid_request("address", "\"" + address + "\" has no port; expected host:port");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    throw invalid_request("address", "\"" + address + "\": write an IPv6 host as [host]:port");
  }
  int port = 0;
  const char* const end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
  if (host.empty() || host.find('\0') != std::string::npos || parsed.ec != std::errc() ||
      parsed.ptr != end || port < 1 || port > 65535)
    throw invalid_request("address", "\"" + address + "\" is not host:port");
  return {std::move(host), static_cast<uint16_t>(port)};
}

}  // namespace tandem::actors
