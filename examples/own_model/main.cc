// Generates text with a model of a family that Tandem does not know.
//   own_model DIR [TEXT…]
#include <tandem/engine.h>

#include <cstdio>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "own_family.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: own_model CHECKPOINT_DIR [TEXT…]\n");
    return 2;
  }
  try {
    tandem::register_family(own::family());
    tandem::EngineConfig config;
    config.mutable_loading()->set_model(argv[1]);
    tandem::LocalEngine engine(config);

    const auto options =
        tandem::read_options({{"num_beams", 1}, {"do_sample", false}, {"max_new_tokens", 40}});
    std::vector<std::future<tandem::proto::RequestOutput>> outputs;
    for (int i = 2; i < argc; ++i) {
      tandem::EngineApi::Request request;
      request.id = std::to_string(i - 1);
      request.prompt = tandem::text_prompt(argv[i]);
      request.options = options;
      outputs.push_back(tandem::submit_whole(engine, std::move(request)));
    }
    // All requests share the engine's steps.
    for (auto& pending : outputs) {
      const tandem::proto::RequestOutput output = pending.get();
      std::printf("%s: %s\n", output.request_id().c_str(), output.outputs(0).text().c_str());
    }
    return 0;
  } catch (const tandem::InputError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
