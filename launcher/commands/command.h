// A subcommand of `tandem`: registers its flags, and returns what runs when it was chosen. run()
// returns the exit status; InputErrors are reported by main.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "launcher/cli.h"
#include "runtime/execution/worker.h"

namespace tandem::launcher {

using Run = std::function<int()>;

Run add_help(CLI::App& app);
Run add_version(CLI::App& app);
Run add_generate(CLI::App& app);
Run add_summarize(CLI::App& app);
Run add_translate(CLI::App& app);
Run add_read(CLI::App& app);
Run add_score(CLI::App& app);
Run add_tokenize(CLI::App& app);
Run add_transcribe(CLI::App& app);
Run add_encode(CLI::App& app);
Run add_classify(CLI::App& app);
Run add_answer(CLI::App& app);
Run add_embed(CLI::App& app);
Run add_inspect(CLI::App& app);
Run add_serve(CLI::App& app);
Run add_bench(CLI::App& app);
// wrap: what serves instead of the worker that is made; for tests.
using WrapWorker = std::function<std::shared_ptr<Worker>(std::shared_ptr<Worker>)>;
Run add_worker(CLI::App& app, WrapWorker wrap);
inline Run add_worker(CLI::App& app) { return add_worker(app, {}); }

}  // namespace tandem::launcher
