// tandem inspect: what a checkpoint is, its sizes, and the memory that it will take.
#include "models/inspect.h"

#include <iostream>

#include "launcher/command.h"
#include "models/checkpoint.h"
#include "models/config.h"

namespace tandem::launcher {

Run add_inspect(CLI::App& app) {
  struct Options {
    std::string model;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("MODEL,--model", options->model, "directory of a HuggingFace checkpoint")
      ->required()
      ->type_name("DIR");
  app.add_flag("--json", options->json, "as a JSON object");
  return [options] {
    const InspectReport report =
        inspect(ModelConfig::load(options->model), Checkpoint::open(options->model));
    std::cout << (options->json ? to_json(report).dump(2) + "\n" : to_text(report));
    return 0;
  };
}

}  // namespace tandem::launcher
