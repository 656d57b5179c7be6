// tandem inspect: what a checkpoint is, its sizes, and the memory that it will take. Of an
// architecture that is not supported, what can be read of it, and then the error. Of an adapter,
// what it changes.
#include "models/inspect.h"

#include <filesystem>
#include <iostream>

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
  };
  auto options = std::make_shared<Options>();
  options->model.add_model_flags(app, "MODEL,--model")->required();
  app.add_flag("--json", options->json, "Write a JSON object")->group("Output");
  return [options] {
    const std::filesystem::path directory = options->model.find_model();
    if (is_adapter(directory)) {
      const auto adapter = inspect_adapter(directory);
      std::cout << (options->json ? adapter.dump(2) + "\n" : adapter_to_text(adapter))
                << std::flush;
      return 0;
    }
    const InspectReport report = inspect(directory);
    const auto json = [&] {
      return to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    };
    std::cout << (options->json ? json() : to_text(report)) << std::flush;
    find_family(ModelConfig::load(directory));  // or an error: status 1, and what is supported
    return 0;
  };
}

}  // namespace tandem::launcher
