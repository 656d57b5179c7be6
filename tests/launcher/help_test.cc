// What every command says about itself: plain lines under headings, whichever CLI11 there is.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using testing::ProcessResult;
using testing::tandem;

const std::vector<std::vector<std::string>> kCommands = {{},
                                                         {"generate"},
                                                         {"score"},
                                                         {"serve"},
                                                         {"worker"},
                                                         {"tokenize"},
                                                         {"encode"},
                                                         {"inspect"},
                                                         {"bench"},
                                                         {"bench", "serve"},
                                                         {"bench", "throughput"},
                                                         {"bench", "latency"}};

std::string help_of(std::vector<std::string> command) {
  command.emplace_back("--help");
  const ProcessResult r = tandem(command);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return r.out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Help, HasNoArtefacts) {
  for (const auto& command : kCommands) {
    const std::string help = help_of(command);
    SCOPED_TRACE(help.substr(0, 60));
    for (const char* artefact :
         {"(0x)", "{false}", "{true}", "INT:INT", "FLOAT:FLOAT", "UINT:", "[TEXTS",
          "OPTIONS:", "Options:", "REQUIRED", "Env:", "e+06", "=\"", "[]"})
      EXPECT_EQ(help.find(artefact), std::string::npos) << artefact;
    for (const std::string& line : lines_of(help)) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(Help, EveryOptionStandsUnderAHeadingAndIsDescribed) {
  for (const auto& command : kCommands) {
    const auto lines = lines_of(help_of(command));
    std::string heading;
    std::set<std::string> headings;
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string& line = lines[i];
      if (!line.empty() && line[0] != ' ' && line.back() == ':') {
        heading = line;
        EXPECT_TRUE(headings.insert(heading).second) << heading << " twice";
      }
      if (line.rfind("  -", 0) != 0) continue;
      EXPECT_NE(heading, "") << line;
      const bool described = line.size() > 30 && line.substr(28, 2) == "  ";
      const bool below = i + 1 < lines.size() && lines[i + 1].rfind(std::string(30, ' '), 0) == 0;
      EXPECT_TRUE(described || below) << line;
    }
    EXPECT_EQ(headings.count("Help:"), 1u);
  }
}

TEST(Help, SaysDefaultsAndBoundsPlainly) {
  const std::string serve = help_of({"serve"});
  EXPECT_NE(serve.find("--port INT"), std::string::npos) << serve;
  EXPECT_NE(serve.find("(0 to 65535, default 8000)"), std::string::npos) << serve;
  EXPECT_NE(serve.find("default 7070"), std::string::npos);
  EXPECT_NE(serve.find("Usage: tandem serve [OPTIONS] [MODEL]"), std::string::npos);
  EXPECT_NE(serve.find("TANDEM_MAX_NUM_SEQS"), std::string::npos);
  EXPECT_NE(help_of({"generate"}).find("Usage: tandem generate [OPTIONS] [TEXT...]"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
