// tandem embed: texts as vectors, JSON lines.
#include <CLI/CLI.hpp>
#include <memory>

#include "launcher/commands/command.h"
#include "launcher/commands/head_options.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/heads/head_json.h"

namespace tandem::launcher {
namespace {

struct EmbedOptions {
  HeadOptions head;
  std::string pooling = "mean";
  bool normalize = false;
};

int run(EmbedOptions& options) {
  options.head.settle();
  options.head.pooling = read_pooling(options.pooling, options.normalize);
  const HeadFormat format(options.head, embedding_to_json);
  return run_requests(options.head.requests, format, [&] { return options.head.open(); });
}

}  // namespace

Run add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  options->head.add_input(app, "tandem embed", "Embedding", "Texts to read; - is standard input",
                          "Read {\"id\", \"text\"} from each line; its params may have pooling and "
                          "normalize (docs/classifying.md)");
  app.add_option("--pooling", options->pooling,
                 "Of the encoder's last hidden states: mean, cls (the first) or last")
      ->capture_default_str();
  app.add_flag("--normalize", options->normalize, "Divide each vector by its length");
  options->head.requests.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
