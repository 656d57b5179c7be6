#include "text/grammar/json/json_formats.h"

#include <map>

namespace tandem {

std::optional<std::string> pattern_of_format(const std::string& format) {
  // Days that there are: February has 29 in years that four divides, and in centuries if 400 does.
  static const std::string fours = "(0[48]|[2468][048]|[13579][26])";
  static const std::string leap = "([0-9]{2}" + fours + "|(00|" + fours + ")00)";
  static const std::string day = "(0[1-9]|1[0-9]|2[0-8])";
  static const std::string date = "([0-9]{4}-((0[1-9]|1[0-2])-" + day +
                                  "|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|" + leap +
                                  "-02-29)";
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
