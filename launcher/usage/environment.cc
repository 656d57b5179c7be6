#include "launcher/usage/environment.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "base/strings/readable_text.h"
#include "launcher/parse_error.h"

namespace tandem::launcher {
namespace {

constexpr std::string_view kPrefix = "TANDEM_";

// What is read elsewhere: docs/gpu.md, docs/design/kernels.md; and what programs around this one
// read.
constexpr const char* kOthers[] = {
    "TANDEM_CPU_ISA",     "TANDEM_CUDA_PLUGIN",      "TANDEM_ONE_SHOT_ALL_REDUCE",
    "TANDEM_BULK_COPIES", "TANDEM_DEPENDENT_LAUNCH", "TANDEM_FUSED_NORMS",
    "TANDEM_BINARY",      "TANDEM_HEAD_BEST_ROWS",   "TANDEM_WORKER_ENDPOINT",
    "TANDEM_DECODER",     "TANDEM_DECODER_SANDBOX",  "TANDEM_MPI_PLUGIN",
    "TANDEM_PYTHON",      "TANDEM_LIBRARY",          "TANDEM_PAGE_DECODER",
    "TANDEM_DIRECT_ROWS"};

// Kubernetes and Docker make these for a service of the name "tandem", for every container.
bool is_of_a_service(std::string_view name) {
  return name.starts_with("TANDEM_SERVICE_") || name.starts_with("TANDEM_PORT_") ||
         name == "TANDEM_NAME" || name.starts_with("TANDEM_ENV_");
}

}  // namespace

std::string variable_of_flag(const std::string& name) {
  std::string out = std::string(kPrefix) + name;
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return out;
}

void forget_service_variables() {
  constexpr const char* kPort = "TANDEM_PORT";
  const char* value = std::getenv(kPort);
  if (value != nullptr && std::string_view(value).find("://") != std::string_view::npos)
    unsetenv(kPort);
}

std::vector<std::string> unknown_variables(const CLI::App& app) {
  std::vector<std::string> known, out;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_envname().empty()) known.push_back(option->get_envname());
  const size_t flags = known.size();
  known.insert(known.end(), std::begin(kOthers), std::end(kOthers));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::string_view(*entry).find('='));
    if (!std::string_view(name).starts_with(kPrefix) || is_of_a_service(name) ||
        std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const std::vector<std::string> candidates(known.begin(),
                                              known.begin() + static_cast<ptrdiff_t>(flags));
    out.push_back("the variable " + readable(name) + " means nothing to " + app.get_name() +
                  did_you_mean(name, candidates));
  }
  return out;
}

}  // namespace tandem::launcher
