// Generates text with a model of a family that Tandem does not know.
//   own_model DIR [TEXT…]
#include <cstdio>
#include <string>

#include "base/error.h"
#include "own_family.h"
#include "runtime/engine/llm_engine.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: own_model CHECKPOINT_DIR [TEXT…]\n");
    return 2;
  }
  try {
    tandem::register_family(own::family());
    tandem::EngineConfig config;
    config.model = argv[1];
    tandem::LLMEngine engine(config);
    const nlohmann::json params = {{"num_beams", 1}, {"do_sample", false}, {"max_new_tokens", 40}};
    for (int i = 2; i < argc; ++i) engine.add_request(std::to_string(i - 1), argv[i], params);
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step())
        if (output.finished())
          std::printf("%s: %s\n", output.request_id().c_str(), output.outputs(0).text().c_str());
    return 0;
  } catch (const tandem::InputError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
