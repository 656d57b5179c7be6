// tandem score: how likely targets are to the model, given their sources (docs/scoring.md).
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/json.h"
#include "base/strings/utf8.h"
#include "client/tandem_client.h"
#include "launcher/commands/command.h"
#include "launcher/commands/requests.h"
#include "runtime/media/image/image_file.h"
#include "runtime/protocol/json/json_line.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct ScoreOptions {
  RequestOptions requests;
  SamplingOptions languages;
  std::vector<std::string> texts;
  bool no_eos = false;
  std::optional<int> logprobs, truncate;

  json params() const {
    json params = languages.params();
    if (logprobs) params["logprobs"] = *logprobs;
    if (truncate) params["truncate_prompt_tokens"] = *truncate;
    return params;
  }
};

// -inf and infinity are not JSON.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }

json score_to_json(const proto::RequestOutput& output, const json& id, bool alternatives) {
  const client::Score score = client::score_of(output);
  const auto& in = output.inputs();
  const auto& fed = in.prompt_token_ids();
  json out = {{"id", id},
              {"encoder_prompt", in.has_encoder_prompt() ? json(in.encoder_prompt()) : json()},
              {"encoder_prompt_token_ids", in.encoder_prompt_token_ids()},
              {"prompt_token_ids",
               json(std::vector<int32_t>(fed.begin(), fed.begin() + in.target_start()))},
              {"target", in.has_target() ? json(in.target()) : json()},
              {"token_ids", score.token_ids},
              {"token_logprobs", json::array()},
              {"cumulative_logprob", number(score.sum)},
              {"mean_logprob", number(score.mean)},
              {"perplexity", number(score.perplexity)}};
  for (const double logprob : score.logprobs) out["token_logprobs"].push_back(number(logprob));
  for (size_t i = 0; alternatives && i < score.top.size(); ++i)
    out["logprobs"].emplace_back(logprobs_to_json(score.top[i]));
  return out;
}

std::string score_to_table(const proto::RequestOutput& output) {
  const client::Score score = client::score_of(output);
  std::string out = "   token    logprob    rank  text\n";
  char line[96];
  for (size_t i = 0; i < score.token_ids.size(); ++i) {
    const proto::TokenLogprob& own = score.top[i].top(0);
    std::snprintf(line, sizeof(line), "%8d %10.4f %7d  ", score.token_ids[i], score.logprobs[i],
                  own.rank());
    out += line + dump_line(own.decoded_token()) + "\n";
  }
  std::snprintf(line, sizeof(line), "%zu tokens: sum %.4f, mean %.4f, perplexity %.4f",
                score.token_ids.size(), score.sum, score.mean, score.perplexity);
  return out + line;
}

class ScoreFormat final : public RequestFormat {
 public:
  explicit ScoreFormat(const ScoreOptions& options) : options_(options) {}

  JsonRequest read(const std::string& line, json& id) const override {
    json parsed = parse_json_line(line);
    if (parsed.is_object() && parsed.contains("id")) id = parsed["id"];
    return score_request_from_json(parsed, options_.params(), !options_.no_eos, read_image_file);
  }

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    if (!options_.requests.jsonl) return score_to_table(output);
    // Alternatives come where somebody asked for them; the tokens' own are there in any case.
    const bool asked = output.outputs_size() > 0 && output.outputs(0).logprobs_size() > 0 &&
                       output.outputs(0).logprobs(0).top_size() > 1;
    return dump_line(score_to_json(output, id, asked));
  }

 private:
  const ScoreOptions& options_;
};

int run(ScoreOptions& options) {
  options.requests.settle_model(&options.texts);
  const ScoreFormat format(options);
  return run_requests(options.requests, format, [&] {
    if (options.requests.jsonl) return open_jsonl(options.requests, options.texts);
    if (!options.requests.input.empty()) throw invalid_request("--input", "is for --jsonl");
    if (options.texts.size() != 2)
      throw invalid_request("SOURCE TARGET", "give one source and one target, or --jsonl");
    for (const std::string& text : options.texts) check_utf8(text, "SOURCE TARGET");
    const json line = {{"prompt", options.texts[0]}, {"target", options.texts[1]}};
    return RequestInput{nullptr, {json_text(line)}, 0};
  });
}

}  // namespace

Run add_score(CLI::App& app) {
  auto options = std::make_shared<ScoreOptions>();
  options->requests.command = "tandem score";
  options->requests.bar = "Scoring";
  app.option_defaults()->group("Input and output");
  options->requests.engine.add_model_argument(app);
  app.add_option("TEXT", options->texts, "The source, and the target")->expected(0, 2);
  app.add_option("--input", options->requests.input, "With --jsonl, read from a file")
      ->type_name("FILE");
  app.add_flag("--jsonl", options->requests.jsonl,
               "Read {\"id\", \"prompt\", \"target\"} from each line, and write a JSON result for "
               "it (docs/scoring.md)");
  app.option_defaults()->group("Scores");
  options->languages.add_only(app, {"source-lang", "target-lang", "task"});
  app.add_flag("--no-eos", options->no_eos, "Do not put an end token behind the target");
  app.add_option("--logprobs", options->logprobs,
                 "Tell the k most likely tokens as well (JSON output)");
  app.add_option("--truncate-prompt-tokens", options->truncate,
                 "Cut a longer source to that many tokens; -1 cuts it to what the model takes");
  options->requests.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
