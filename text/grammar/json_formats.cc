#include "text/grammar/json_formats.h"

#include <map>

namespace tandem {

std::optional<std::string> pattern_of_format(const std::string& format) {
  static const std::string date = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
  static const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  static const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  static const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  static const std::map<std::string, std::string> known = {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"ipv4", byte + "(\\." + byte + "){3}"},
      {"hostname", label + "(\\." + label + ")*"},
      {"email", "[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@" + label + "(\\." + label + ")+"},
  };
  const auto it = known.find(format);
  if (it == known.end()) return std::nullopt;
  return "^(" + it->second + ")$";
}

}  // namespace tandem
