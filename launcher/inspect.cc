// tandem inspect: what a checkpoint is, its sizes, and the memory that it will take.
#include "models/inspect.h"

#include <filesystem>
#include <iostream>

#include "launcher/command.h"
#include "launcher/options.h"
#include "models/checkpoint.h"
#include "models/config.h"

namespace tandem::launcher {

Run add_inspect(CLI::App& app) {
  struct Options {
    ModelOptions model;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  options->model.add_model_flags(app, "MODEL,--model")->required();
  app.add_flag("--json", options->json, "as a JSON object");
  return [options] {
    const std::filesystem::path directory = options->model.find_model();
    const InspectReport report = inspect(ModelConfig::load(directory), Checkpoint::open(directory));
    std::cout << (options->json ? to_json(report).dump(2) + "\n" : to_text(report));
    return 0;
  };
}

}  // namespace tandem::launcher
