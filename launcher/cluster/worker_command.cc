// What every worker process is started with, whoever starts it (worker_command.h).
#include "launcher/cluster/worker_command.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"

namespace tandem::launcher {
namespace {

bool is_of_outer_job(const std::string& entry) {
  const char* const starts[] = {"OMPI_COMM_WORLD", "OMPI_UNIVERSE",    "PMIX_", "PMI_",
                                "OMPI_MCA_ess",    "OMPI_MCA_orte_ess"};
  return std::any_of(std::begin(starts), std::end(starts),
                     [&](const char* start) { return entry.rfind(start, 0) == 0; });
}

}  // namespace

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::vector<std::string> WorkerCommand::line(int replica, uint64_t generation) const {
  std::vector<std::string> out{program,        "worker",
                               "--replica",    std::to_string(replica),
                               "--generation", std::to_string(generation)};
  out.insert(out.end(), flags.begin(), flags.end());
  return out;
}

std::vector<std::string> worker_environment(const actors::WorkerEndpoint& endpoint) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!is_of_outer_job(*entry)) out.emplace_back(*entry);
  out.push_back(std::string(kEndpointVariable) + "=" + encode_endpoint(endpoint));
  return out;
}

std::string encode_endpoint(const actors::WorkerEndpoint& endpoint) {
  return endpoint.address + " " + endpoint.credentials.encode();
}

actors::WorkerEndpoint decode_endpoint(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos)
    throw invalid_request(kEndpointVariable, "is not an address and credentials");
  return {text.substr(0, space), actors::Credentials::decode(text.substr(space + 1))};
}

}  // namespace tandem::launcher
