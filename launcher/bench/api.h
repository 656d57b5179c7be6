// The routes of OpenAI's API that `tandem bench serve` knows, and what is asked of them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "launcher/bench/audio.h"

namespace tandem::bench {

enum class Api { kCompletions, kChat, kEmbeddings, kAudio };

// "openai", "openai-chat", …; vLLM's names. Throws InputError (--backend).
Api parse_api(const std::string& name);
const char* default_path(Api api);

// What one request asks for.
struct Item {
  nlohmann::json prompt;                  // a text or token ids; null with a recording
  int prompt_tokens = 0;                  // of token ids; 0: not known
  int output_len = 0;                     // tokens to generate; 0: the model says when to end
  std::shared_ptr<const Recording> clip;  // of kAudio
};

// One request: a JSON body, or a form with a file.
struct Job {
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;  // of the form
  std::shared_ptr<const Recording> file;                    // of the form; null: `body` is sent
  double arrival = 0;                                       // seconds from the start
  int prompt_tokens = 0;                                    // of token ids; 0: not known
};

// `extra` goes over everything else; null takes a field out.
Job make_job(Api api, const std::string& model, const Item& item, const nlohmann::json& extra);

}  // namespace tandem::bench
