// CLI11's types by name, for headers. A file that defines or parses flags includes <CLI/CLI.hpp>,
// which takes a compiler three seconds.
#pragma once

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI
