#include "runtime/engine/step_output_checks.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace tandem {
namespace {

void check_measured(const char* what, double value) {
  if (!(value >= 0 && std::isfinite(value)))
    throw std::runtime_error(std::string("step output: ") + what + ": " + std::to_string(value));
}

}  // namespace

void check_step_output(const proto::StepOutput& output, uint64_t expected, int vocab_size,
                       int stages) {
  if (expected == 0)
    throw std::runtime_error("step output " + std::to_string(output.step()) +
                             ": no step is in flight");
  if (output.step() != expected)
    throw std::runtime_error("step output " + std::to_string(output.step()) + " instead of " +
                             std::to_string(expected));
  check_measured("seconds", output.seconds());
  check_measured("encoder_seconds", output.encoder_seconds());
  check_measured("draft_cost", output.draft_cost());
  check_measured("pipeline_seconds", output.pipeline_seconds());
  if (output.stage_seconds_size() > (stages > 1 ? stages : 0))
    throw std::runtime_error("step output: stage_seconds of " +
                             std::to_string(output.stage_seconds_size()) + " stages, not of " +
                             std::to_string(stages));
  for (const double seconds : output.stage_seconds()) check_measured("stage_seconds", seconds);
  for (const auto& group : output.outputs()) {
    if (group.has_embedding() && group.embedding().values().empty())
      throw std::runtime_error("step output: request \"" + group.request_id() +
                               "\": an empty embedding");
    const auto check = [&](int32_t token) {
      if (token < 0 || token >= vocab_size)
        throw std::runtime_error("step output: request \"" + group.request_id() + "\": token " +
                                 std::to_string(token) + " is not in [0, " +
                                 std::to_string(vocab_size) + ")");
    };
    const proto::BeamMoves& moves = group.moves();
    if (moves.parents_size() != moves.token_ids_size())
      throw std::runtime_error("step output: request \"" + group.request_id() +
                               "\": moves of unequal lists");
    for (const int32_t parent : moves.parents())
      if (parent < 0 || parent >= moves.parents_size())
        throw std::runtime_error("step output: request \"" + group.request_id() + "\": beam " +
                                 std::to_string(parent) + " is not in [0, " +
                                 std::to_string(moves.parents_size()) + ")");
    for (const int32_t token : moves.token_ids()) check(token);
    for (const auto& sample : group.samples()) {
      check(sample.token_id());
      for (const int32_t token : sample.candidates().token_ids()) check(token);
      for (const auto& logprob : sample.logprobs().top()) check(logprob.token_id());
      for (const int32_t token : sample.drafts().token_ids()) check(token);
    }
    for (const auto& logprobs : group.prompt_logprobs())
      for (const auto& logprob : logprobs.top()) check(logprob.token_id());
  }
}

}  // namespace tandem
