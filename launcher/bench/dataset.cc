#include "launcher/bench/dataset.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/error.h"

namespace tandem::bench {
namespace {

constexpr char kGroup[] = "What is asked for";

// Frequent words: with a space in front, one token each in most vocabularies.
constexpr const char* kWords[] = {
    "the",  "of",    "and",   "to",    "in",     "that",   "was",  "his",   "he",    "it",
    "with", "is",    "for",   "as",    "had",    "you",    "not",  "be",    "her",   "on",
    "at",   "by",    "which", "have",  "or",     "from",   "this", "him",   "but",   "all",
    "she",  "they",  "were",  "my",    "are",    "me",     "one",  "their", "so",    "an",
    "said", "them",  "we",    "who",   "would",  "been",   "will", "no",    "when",  "there",
    "if",   "more",  "out",   "up",    "into",   "do",     "any",  "your",  "what",  "has",
    "man",  "could", "other", "than",  "our",    "some",   "very", "time",  "upon",  "about",
    "may",  "its",   "only",  "now",   "like",   "little", "then", "can",   "made",  "should",
    "did",  "us",    "such",  "great", "before", "must",   "two",  "these", "see",   "know",
    "over", "much",  "down",  "after", "first",  "good",   "men",  "own",   "never", "most"};

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  if (!file) throw invalid_request("--dataset-path", "cannot read " + path);
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) lines.push_back(line);
  if (lines.empty()) throw invalid_request("--dataset-path", path + " has no text");
  return lines;
}

std::string random_words(int count, std::mt19937_64& random) {
  std::uniform_int_distribution<size_t> word(0, std::size(kWords) - 1);
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + std::string(kWords[word(random)]);
  return text;
}

}  // namespace

void Dataset::add(CLI::App& app) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(kGroup);
  };
  app.add_option("--dataset-path", path,
                 "file of texts, a line each, used in turn; for audio: a .wav or .flac file, or a "
                 "folder of them. Without it prompts are random")
      ->type_name("FILE")
      ->group(kGroup);
  option("--random-input-len,--input-len", input_len, "tokens of a random prompt")
      ->check(CLI::Range(3, 1 << 20));
  option("--random-output-len,--output-len", output_len,
         "tokens to generate for each, whatever the model's end token says; 0: until that")
      ->check(CLI::Range(0, 1 << 20));
  option("--random-range-ratio", range_ratio,
         "both lengths vary by this share: 0.2 means from 80 % to 120 %")
      ->check(CLI::Range(0.0, 0.99));
  option("--random-vocab", vocabulary, "random token ids are below this")
      ->check(CLI::Range(100, 1 << 24));
}

void Dataset::add_num_prompts(CLI::App& app) {
  app.add_option("--num-prompts", num_prompts, "requests to send")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24))
      ->group(kGroup);
}

void Dataset::add_seed(CLI::App& app) {
  app.add_option("--seed", seed, "of the random lengths, tokens and arrivals")
      ->capture_default_str()
      ->group(kGroup);
}

void Dataset::add_audio(CLI::App& app) {
  app.add_option("--random-audio-len", audio_seconds,
                 "seconds of a tone, which audio requests send without --dataset-path")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0))
      ->group(kGroup);
}

int Dataset::vary(int length, std::mt19937_64& random) const {
  std::uniform_int_distribution<int> around(
      std::max(1, static_cast<int>(std::floor(length * (1 - range_ratio)))),
      std::max(1, static_cast<int>(std::ceil(length * (1 + range_ratio)))));
  return around(random);
}

std::vector<Item> Dataset::items(Api api, std::mt19937_64& random) const {
  std::vector<std::string> lines;
  std::vector<std::shared_ptr<const Recording>> clips;
  if (api == Api::kAudio && path.empty()) {
    clips.push_back(std::make_shared<Recording>(make_tone(audio_seconds, 440)));
  } else if (api == Api::kAudio) {
    for (Recording& clip : read_recordings(path))
      clips.push_back(std::make_shared<Recording>(std::move(clip)));
  } else if (!path.empty()) {
    lines = read_lines(path);
  }
  std::vector<Item> out;
  for (size_t i = 0; i < static_cast<size_t>(num_prompts); ++i) {
    Item item;
    item.output_len = output_len > 0 ? vary(output_len, random) : 0;
    if (!clips.empty()) {
      item.clip = clips[i % clips.size()];
    } else if (!lines.empty()) {
      item.prompt = lines[i % lines.size()];
    } else if (api == Api::kChat) {
      item.prompt = random_words(vary(input_len, random), random);
    } else {
      item.prompt_tokens = vary(input_len, random);
      std::uniform_int_distribution<int> token(50, vocabulary - 1);
      std::vector<int> ids(static_cast<size_t>(item.prompt_tokens));
      for (int& id : ids) id = token(random);
      item.prompt = std::move(ids);
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace tandem::bench
