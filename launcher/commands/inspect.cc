// tandem inspect: what a checkpoint is, its sizes, and the memory that it will take. Of an
// architecture that is not supported, what can be read of it, and then the error. Of an adapter,
// what it changes.
#include "models/inspect.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "base/json.h"
#include "launcher/commands/command.h"
#include "launcher/options.h"
#include "models/adapters/inspect_adapter.h"
#include "models/config/config.h"
#include "models/family.h"

namespace tandem::launcher {

Run add_inspect(CLI::App& app) {
  struct Options {
    ModelOptions model;
    bool json = false;
    int ranks = 1, stages = 1, encoder_ranks = 0, input_tokens = 0, output_tokens = 0;
    std::vector<int32_t> layers;
  };
  auto options = std::make_shared<Options>();
  options->model.add_model_flags(app, "MODEL,--model")->required();
  app.add_flag("--json", options->json, "Write a JSON object")->group("Output");
  const auto number = [&app](const char* name, int& value, const char* help, int least = 1,
                             int most = 256) {
    app.add_option(name, value, help)
        ->check(CLI::Range(least, most))
        ->capture_default_str()
        ->group("Cluster (docs/parallel.md)");
  };
  number("--pipeline-parallel-size,--pp", options->stages,
         "Show what the ranks hold of a model that so many stages share");
  number("--tensor-parallel-size,--tp", options->ranks, "Number of ranks of each stage");
  number("--encoder-ranks", options->encoder_ranks, "Number of ranks that run encoders only", 0);
  number("--expected-input-tokens", options->input_tokens,
         "Tokens of a usual input, by which layers are shared; 0: not known", 0, 1 << 24);
  number("--expected-output-tokens", options->output_tokens, "Tokens of a usual output", 0,
         1 << 24);
  app.add_option("--pipeline-layers", options->layers,
                 "Number of layers of each stage, the encoder's first, as in 4,4,2,2")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,N,")
      ->group("Cluster (docs/parallel.md)");
  return [options] {
    const std::filesystem::path directory = options->model.find_model();
    if (is_adapter(directory)) {
      const auto adapter = inspect_adapter(directory);
      std::cout << (options->json ? json_text(adapter, 2) + "\n" : adapter_to_text(adapter))
                << std::flush;
      return 0;
    }
    InspectReport report = inspect(directory);
    if (options->stages > 1 || options->ranks > 1 || options->encoder_ranks > 0 ||
        !options->layers.empty()) {
      const LayerSizes sizes =
          layer_sizes(ModelConfig::load(directory), Checkpoint::open(directory));
      report.stages = plan_stages(sizes, {.stages = options->stages,
                                          .layers = options->layers,
                                          .encoder = options->encoder_ranks == 0,
                                          .input_tokens = options->input_tokens,
                                          .output_tokens = options->output_tokens});
      report.encoder_ranks = options->encoder_ranks;
      if (options->encoder_ranks > 0) report.encoder_alone = encoder_alone(sizes);
      report.ranks_of_stage = options->ranks;
    }
    const auto json = [&] {
      return to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    };
    std::cout << (options->json ? json() : to_text(report)) << std::flush;
    find_family(ModelConfig::load(directory));  // or an error: status 1, and what is supported
    return 0;
  };
}

}  // namespace tandem::launcher
