// What every command says about itself: plain lines under headings, whichever CLI11 there is.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "launcher/usage/short_help.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using testing::ProcessResult;
using testing::tandem;

const std::vector<std::vector<std::string>> kCommands = {{},
                                                         {"generate"},
                                                         {"summarize"},
                                                         {"translate"},
                                                         {"read"},
                                                         {"score"},
                                                         {"classify"},
                                                         {"answer"},
                                                         {"embed"},
                                                         {"transcribe"},
                                                         {"help"},
                                                         {"version"},
                                                         {"serve"},
                                                         {"worker"},
                                                         {"tokenize"},
                                                         {"encode"},
                                                         {"inspect"},
                                                         {"bench"},
                                                         {"bench", "serve"},
                                                         {"bench", "throughput"},
                                                         {"bench", "latency"}};

std::string help_of(std::vector<std::string> command, const char* flag = "--help=all") {
  command.emplace_back(flag);
  const ProcessResult r = tandem(command);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return r.out;
}

std::vector<std::string> help_lines_of(const std::string& text) {
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
    for (const std::string& line : help_lines_of(help)) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(Help, EveryOptionStandsUnderAHeadingAndIsDescribed) {
  for (const auto& command : kCommands) {
    if (command.empty() || command == std::vector<std::string>{"bench"}) continue;  // all of them
    const auto lines = help_lines_of(help_of(command));
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
  EXPECT_NE(help_of({"generate"}).find("Usage: tandem generate [OPTIONS] [MODEL] [TEXT...]"),
            std::string::npos);
}

// What a new user needs, on a screen.
TEST(Help, IsShortUnlessAllIsAskedFor) {
  for (const auto& command : kCommands) {
    const std::string help = help_of(command, "--help"), all = help_of(command);
    SCOPED_TRACE(help.substr(0, 60));
    const auto lines = help_lines_of(help);
    EXPECT_LE(lines.size(), 40u) << help;
    for (const std::string& line : lines) EXPECT_LE(line.size(), 100u) << line;
    std::string name = "tandem";
    for (const std::string& word : command) name += " " + word;
    for (const std::string& flag : launcher::short_help_flags(name)) {
      EXPECT_NE(help.find(flag), std::string::npos) << flag;
      EXPECT_NE(all.find(flag), std::string::npos) << flag;
    }
    EXPECT_EQ(help_of(command, "--help-all"), all);
    auto by_name = command;
    by_name.insert(by_name.begin(), "help");
    EXPECT_EQ(tandem(by_name).out, help);
  }
  EXPECT_GT(help_lines_of(help_of({"serve"})).size(), 100u);
  // All commands' options.
  EXPECT_NE(help_of({}).find("--num-beams"), std::string::npos);
  EXPECT_NE(help_of({}, "--help").find("transcribe"), std::string::npos);
  EXPECT_EQ(tandem({"version"}).out, tandem({"--version"}).out);
  const ProcessResult unknown = tandem({"help", "sreve"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("did you mean serve?"), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace tandem
