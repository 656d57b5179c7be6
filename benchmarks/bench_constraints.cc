// What constrained output costs on one core: making a constraint, and masks of tokens per second
// where states are new and where they are known; and how soon what explodes is refused.
//   bench_constraints --model DIR [--texts 200] [--tokens 64] [--seed 1]
// Of the model only the tokenizer is read. A text is a random walk: each token is one of those that
// the mask allows.
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/support/command_line.h"
#include "models/model.h"
#include "runtime/request/constraint_store.h"

namespace {

using namespace tandem;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  int texts = 200, tokens = 64;
  uint64_t seed = 1;
};

struct Case {
  const char* name;
  proto::Constraint constraint;
};

proto::Constraint schema(const char* text) {
  proto::Constraint out;
  out.set_field("guided_json");
  out.set_json_schema(text);
  return out;
}
proto::Constraint regex(const std::string& text) {
  proto::Constraint out;
  out.set_field("guided_regex");
  out.set_regex(text);
  return out;
}

std::vector<Case> cases() {
  proto::Constraint choice, object, grammar;
  choice.set_field("guided_choice");
  for (const char* text : {"positive", "negative", "neutral"})
    choice.mutable_choice()->add_texts(text);
  object.set_field("response_format");
  object.set_json_object(true);
  grammar.set_field("guided_grammar");
  grammar.set_grammar("root ::= sum\nsum ::= sum [-+] num | num\nnum ::= [0-9]+");
  return {{"choice of 3", choice},
          {"regex: a telephone number", regex("[0-9]{3}-[0-9]{4}")},
          {"regex: words", regex("(\\w+ ){1,20}")},
          {"schema: two fields", schema(R"({"type":"object","properties":{"name":{"type":"string"},
                      "age":{"type":"integer","minimum":0}},"required":["name","age"]})")},
          {"schema: a list of objects",
           schema(R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},
                      "tag":{"enum":["a","b","c"]},"text":{"type":"string","maxLength":40},
                      "ok":{"type":"boolean"}},"required":["id","tag","text","ok"]},"minItems":2})")},
          {"any JSON object", object},
          {"grammar: sums", grammar}};
}

// What has to be refused, or served within the bounds.
std::vector<Case> explosions() {
  std::string wide = R"({"type":"object","properties":{)", nested = "{}";
  for (int i = 0; i < 3000; ++i)
    wide += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"string","maxLength":200})";
  for (int i = 0; i < 60; ++i)
    nested = R"({"type":"array","minItems":9,"maxItems":9,"items":)" + nested + "}";
  return {{"regex: (a|b)*a(a|b){60}", regex("(a|b)*a(a|b){60}")},
          {"regex: ((a{100}){100}){100}", regex("((a{100}){100}){100}")},
          {"regex: (.{0,500}x){0,500}", regex("(.{0,500}x){0,500}")},
          {"schema: 3000 optional strings", schema((wide + "}}").c_str())},
          {"schema: 9^60 items", schema(nested.c_str())}};
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of /proc/self/status, MB.
double megabytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) * 1024 / 1e6;
  return 0;
}
// From now on VmHWM is the largest memory since.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// A random one of the set bits.
int32_t pick(const TokenConstraint::Mask& mask, std::mt19937_64& rng) {
  int64_t count = 0;
  for (const uint64_t word : mask) count += std::popcount(word);
  auto left = static_cast<int64_t>(rng() % static_cast<uint64_t>(count));
  for (size_t i = 0; i < mask.size(); ++i) {
    uint64_t word = mask[i];
    for (; left >= 0 && word != 0; word &= word - 1)
      if (left-- == 0) return static_cast<int32_t>(i * 64) + std::countr_zero(word);
  }
  return -1;
}

struct Rate {
  int64_t masks = 0;
  double seconds = 0;
  double worst = 0;  // seconds of one
};

// The same texts each time.
Rate walk(const TokenConstraint& constraint, const Options& o) {
  Rate out;
  std::mt19937_64 rng(o.seed);
  for (int text = 0; text < o.texts; ++text) {
    std::vector<int32_t> tokens;
    while (static_cast<int>(tokens.size()) < o.tokens) {
      const auto start = Clock::now();
      const TokenConstraint::Allowed allowed = constraint.allowed(tokens);
      const double took = seconds_since(start);
      ++out.masks;
      out.seconds += took;
      out.worst = std::max(out.worst, took);
      const bool none = std::ranges::all_of(*allowed.tokens, [](uint64_t w) { return w == 0; });
      if (none || (allowed.ends && rng() % 8 == 0)) break;
      tokens.push_back(pick(*allowed.tokens, rng));
    }
  }
  return out;
}

void print_rates(ConstraintStore& store, const Options& o) {
  std::printf("%-28s %9s %12s %12s %10s %8s\n", "constraint", "made, ms", "new, 1/s", "known, 1/s",
              "worst, ms", "MB");
  for (const Case& c : cases()) {
    const auto start = Clock::now();
    const auto made = store.get(c.constraint);
    const double making = seconds_since(start);
    const Rate first = walk(*made, o), again = walk(*made, o);
    std::printf("%-28s %9.2f %12.0f %12.0f %10.2f %8.1f\n", c.name, making * 1e3,
                static_cast<double>(first.masks) / first.seconds,
                static_cast<double>(again.masks) / again.seconds, first.worst * 1e3,
                static_cast<double>(made->size()) / 1e6);
  }
}

void print_explosions(ConstraintStore& store) {
  std::printf("\n%-32s %8s %8s\n", "what explodes", "ms", "MB");
  for (const Case& c : explosions()) {
    malloc_trim(0);
    reset_peak();
    const double before = megabytes("VmRSS");
    const auto start = Clock::now();
    std::string result = "made";
    std::shared_ptr<const TokenConstraint> made;
    try {
      made = store.get(c.constraint);
    } catch (const std::exception& error) {
      result = error.what();
    }
    const double took = seconds_since(start);
    std::printf("%-32s %8.1f %8.1f  %.90s\n", c.name, took * 1e3, megabytes("VmHWM") - before,
                result.c_str());
  }
}

int run(const Options& o) {
  const ModelConfig config = ModelConfig::load(o.model);
  ConstraintStore store(o.model, config.vocab_size);
  store.get(regex("a"));  // reads the tokenizer
  std::printf("%d tokens\n", config.vocab_size);
  print_rates(store, o);
  print_explosions(store);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bench::CommandLine app("Times constraints and their masks on one core.");
  app.add("--model", o.model, "checkpoint directory, for its tokenizer").required();
  app.add("--texts", o.texts, "random texts for each constraint");
  app.add("--tokens", o.tokens, "of a text, at most");
  app.add("--seed", o.seed, "of the texts");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_constraints: %s\n", e.what());
    return 1;
  }
}
