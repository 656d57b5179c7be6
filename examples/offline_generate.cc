// Generates text for a few inputs with the engine that a server runs, in one thread: no actors, no
// HTTP.
//   offline_generate DIR [TEXT…]
#include <cstdio>
#include <map>
#include <string>

#include "base/error.h"
#include "runtime/engine/llm_engine.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: offline_generate CHECKPOINT_DIR [TEXT…]\n");
    return 2;
  }
  try {
    tandem::EngineConfig config;
    config.model = argv[1];
    tandem::LLMEngine engine(config);

    const nlohmann::json params = {{"num_beams", 1}, {"do_sample", false}, {"max_new_tokens", 40}};
    for (int i = 2; i < argc; ++i) engine.add_request(std::to_string(i - 1), argv[i], params);

    // All requests share the steps; a step returns the outputs that ended with it.
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step())
        std::printf("%s: %s\n", output.request_id().c_str(), output.outputs(0).text().c_str());
    return 0;
  } catch (const tandem::InputError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
