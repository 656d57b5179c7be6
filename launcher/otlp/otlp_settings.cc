// The specification:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
// .../protocol/exporter/. A variable that is wrong is ignored, with a warning, as it asks for: the
// variables are every program's. A flag is Tandem's own, and its mistakes are errors.
#include "launcher/otlp/otlp_settings.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings/percent.h"
#include "base/strings/printable.h"
#include "launcher/hub/http_client.h"
#include "runtime/version.h"
#include "server/http/url.h"

namespace tandem::launcher {
namespace {

constexpr const char* kTraces = "TRACES";
constexpr const char* kMetrics = "METRICS";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view stripped(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// A field's name by RFC 9110, 5.1.
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; });
}

// http[s]://HOST:PORT without a path gets that of the signal.
std::string with_path(const std::string& url, const std::string& path) {
  const size_t host = url.find("://") + 3;
  return url.find('/', host) == std::string::npos ? url + path : url;
}

// Empty: it may be one.
std::string fault_of(const std::string& url) {
  if (url.starts_with("grpc://") || url.starts_with("grpcs://"))
    return "is gRPC's; OTLP is sent over HTTP, to the collector's port for it: "
           "http://HOST:4318";
  if (!hub::is_web_address(url)) return in_quotes(url) + " is not http[s]://HOST[:PORT][/PATH]";
  return {};
}

// The variables, and what is wrong with them.
class Variables {
 public:
  Variables(const OtlpOptions::GetVariable& get, std::vector<std::string>& warnings)
      : get_(get), warnings_(warnings) {}

  std::string value(const std::string& name) const {
    const char* text = get_(name.c_str());
    return text != nullptr ? std::string(stripped(text)) : std::string();
  }
  void ignore(const std::string& name, const std::string& why) const {
    warnings_.push_back("the variable " + name + " is ignored: " + why);
  }
  // OTEL_EXPORTER_OTLP_{signal}_{what}, else OTEL_EXPORTER_OTLP_{what}: the name of the one that
  // is set, else an empty one.
  std::string of_signal(const char* signal, const char* what) const {
    for (const std::string& name : {std::string("OTEL_EXPORTER_OTLP_") + signal + "_" + what,
                                    std::string("OTEL_EXPORTER_OTLP_") + what})
      if (!value(name).empty()) return name;
    return {};
  }
  template <class Number>
  std::optional<Number> number(const std::string& name, Number least, Number most) const {
    const std::string text = name.empty() ? "" : value(name);
    if (text.empty()) return std::nullopt;
    Number out{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error == std::errc() && end == text.data() + text.size() && out >= least && out <= most)
      return out;
    ignore(name, printable(text) + " is no number from " + std::to_string(least) + " to " +
                     std::to_string(most));
    return std::nullopt;
  }
  std::optional<std::chrono::milliseconds> time(const std::string& name) const {
    const auto count = number<int64_t>(name, 1, 86400000);
    return count ? std::optional(std::chrono::milliseconds(*count)) : std::nullopt;
  }
  // "name=value,name=value", values in percent-encoding. Nothing if it is none.
  std::optional<std::vector<std::pair<std::string, std::string>>> pairs(
      const std::string& name) const;

 private:
  const OtlpOptions::GetVariable& get_;
  std::vector<std::string>& warnings_;
};

std::optional<std::vector<std::pair<std::string, std::string>>> Variables::pairs(
    const std::string& name) const {
  std::vector<std::pair<std::string, std::string>> out;
  const std::string text = name.empty() ? "" : value(name);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = stripped(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || stripped(entry.substr(0, equals)).empty()) {
      ignore(name, "it is not a list of name=value");  // (it may be secret)
      return std::nullopt;
    }
    out.emplace_back(stripped(entry.substr(0, equals)),
                     percent_decoded(stripped(entry.substr(equals + 1))));
  }
  return out;
}

std::vector<std::string> headers_of(const Variables& variables, const char* signal) {
  std::vector<std::string> out;
  const std::string name = variables.of_signal(signal, "HEADERS");
  const auto pairs = variables.pairs(name);
  if (!pairs) return out;
  for (const auto& [header, text] : *pairs) {
    if (is_token(header) && is_printable(text))
      out.push_back(header + ": " + text);
    else
      variables.ignore(name, "a name or a value in it fits no HTTP header");
  }
  return out;
}

// The address by the variables; empty: there is none.
std::string url_of(const Variables& variables, const char* signal, const std::string& path) {
  const std::string exporter = std::string("OTEL_") + signal + "_EXPORTER";
  const std::string chosen = variables.value(exporter);
  if (chosen == "none") return {};
  const std::string name = variables.of_signal(signal, "ENDPOINT");
  if (name.empty()) return {};
  if (!chosen.empty() && chosen != "otlp")
    variables.ignore(exporter, printable(chosen) + " is neither otlp nor none");
  std::string url = variables.value(name);
  if (const std::string fault = fault_of(url); !fault.empty()) {
    variables.ignore(name, fault);
    return {};
  }
  if (name.find(signal) != std::string::npos) return with_path(url, path);
  while (url.ends_with('/')) url.pop_back();
  return url + path;
}

// flag: its value, which wins.
std::optional<OtlpEndpoint> endpoint(const Variables& variables, const char* signal,
                                     const char* flag_name, const std::string& flag,
                                     const std::string& path) {
  OtlpEndpoint out;
  if (!flag.empty()) {
    if (const std::string fault = fault_of(flag); !fault.empty())
      throw invalid_request(flag_name, fault);
    out.url = with_path(flag, path);
  } else {
    out.url = url_of(variables, signal, path);
  }
  if (out.url.empty()) return std::nullopt;
  out.headers = headers_of(variables, signal);
  out.timeout = variables.time(variables.of_signal(signal, "TIMEOUT")).value_or(out.timeout);
  const std::string compression = variables.of_signal(signal, "COMPRESSION");
  if (!compression.empty()) {
    const std::string value = variables.value(compression);
    out.gzip = value == "gzip";
    if (!out.gzip && value != "none")
      variables.ignore(compression, printable(value) + " is neither gzip nor none");
  }
  if (const std::string file = variables.of_signal(signal, "CERTIFICATE"); !file.empty())
    out.ca_file = variables.value(file);
  if (const std::string protocol = variables.of_signal(signal, "PROTOCOL"); !protocol.empty())
    if (variables.value(protocol) == "grpc")
      variables.ignore(protocol, "OTLP is sent as JSON over HTTP to " + out.url);
  return out;
}

// The process, and what OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say, which wins.
server::Attributes resource_of(const Variables& variables) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  server::Attributes out = {{"service.name", std::string("tandem")},
                            {"service.version", std::string(kVersion)},
                            {"service.instance.id", server::random_id()},
                            {"host.name", std::string(host)},
                            {"process.pid", static_cast<int64_t>(getpid())}};
  const auto set = [&](const std::string& name, const std::string& value) {
    const auto known = std::find_if(out.begin(), out.end(),
                                    [&](const auto& attribute) { return attribute.first == name; });
    if (known != out.end())
      known->second = value;
    else
      out.emplace_back(name, value);
  };
  if (const auto pairs = variables.pairs("OTEL_RESOURCE_ATTRIBUTES"))
    for (const auto& [name, value] : *pairs) set(name, value);
  if (const std::string name = variables.value("OTEL_SERVICE_NAME"); !name.empty())
    set("service.name", name);
  return out;
}

server::TraceSampler sampler_of(const Variables& variables) {
  server::TraceSampler sampler{.on = true};
  const std::string kName = "OTEL_TRACES_SAMPLER";
  std::string name = variables.value(kName);
  if (name.empty()) return sampler;
  constexpr std::string_view kParent = "parentbased_";
  sampler.parent_based = name.starts_with(kParent);
  const std::string kind = sampler.parent_based ? name.substr(kParent.size()) : name;
  if (kind == "traceidratio") {
    sampler.ratio = variables.number<double>("OTEL_TRACES_SAMPLER_ARG", 0, 1).value_or(1);
  } else if (kind == "always_off") {
    sampler.ratio = 0;
  } else if (kind != "always_on") {
    variables.ignore(kName, printable(name) +
                                " is none of [parentbased_]always_on, "
                                "[parentbased_]always_off, "
                                "[parentbased_]traceidratio");
    return {.on = true};
  }
  return sampler;
}

}  // namespace

void OtlpOptions::add(CLI::App& app) {
  constexpr const char* kGroup = "Traces and metrics (docs/deploying.md)";
  app.add_option("--otlp-traces-endpoint", traces_endpoint,
                 "Send spans of HTTP requests to this OpenTelemetry collector (OTLP over HTTP)")
      ->type_name("URL")
      ->group(kGroup);
  app.add_option("--otlp-metrics-endpoint", metrics_endpoint,
                 "Send what /metrics has to this OpenTelemetry collector every minute")
      ->type_name("URL")
      ->group(kGroup);
}

OtlpSettings OtlpOptions::parse(const GetVariable& get) const {
  OtlpSettings out;
  const Variables variables(get, out.warnings);
  if (variables.value("OTEL_SDK_DISABLED") == "true") return out;
  out.traces =
      endpoint(variables, kTraces, "--otlp-traces-endpoint", traces_endpoint, "/v1/traces");
  out.metrics =
      endpoint(variables, kMetrics, "--otlp-metrics-endpoint", metrics_endpoint, "/v1/metrics");
  if (out.traces || out.metrics) out.resource = resource_of(variables);
  if (out.traces) {
    out.sampler = sampler_of(variables);
    server::SpanExporterSettings& s = out.spans;
    s.max_queue =
        variables.number<size_t>("OTEL_BSP_MAX_QUEUE_SIZE", 1, 1000000).value_or(s.max_queue);
    s.max_batch = variables.number<size_t>("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, 100000)
                      .value_or(std::min(s.max_batch, s.max_queue));
    s.delay = variables.time("OTEL_BSP_SCHEDULE_DELAY").value_or(s.delay);
  }
  if (out.metrics)
    out.metric_interval =
        variables.time("OTEL_METRIC_EXPORT_INTERVAL").value_or(out.metric_interval);
  return out;
}

}  // namespace tandem::launcher
