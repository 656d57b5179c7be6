#include "runtime/request/heads/task_rules.h"

#include <iterator>
#include <string>

#include "base/error.h"
#include "base/strings/printable.h"

namespace tandem {
namespace {

struct TaskWords {
  Task task;
  const char* does;  // the model
  const char* how;   // it is asked
};
// The first one that a model has is named in errors.
constexpr TaskWords kWords[] = {
    {Task::kGenerate, "generates text", "`tandem generate`, POST /v1/completions"},
    {Task::kClassify, "classifies texts", "`tandem classify`, POST /classify"},
    {Task::kAnswer, "finds answers in a text", "`tandem answer`"},
    {Task::kEncode, "makes vectors of texts", "`tandem embed`, POST /v1/embeddings"},
    {Task::kScore, "scores targets", "`tandem score`, POST /v1/target_scores"}};

const TaskWords& words_of(Task task) {
  size_t at = 0;
  while (kWords[at].task != task && at + 1 < std::size(kWords)) ++at;
  return kWords[at];
}

}  // namespace

Task task_of(const proto::Prompt& prompt) {
  if (prompt.has_target()) return Task::kScore;
  if (!prompt.has_pooling()) return Task::kGenerate;
  switch (prompt.pooling().kind()) {
    case proto::Pooling::ALIGNMENT: return Task::kGenerate;  // which it is about
    case proto::Pooling::LABELS: return Task::kClassify;
    case proto::Pooling::SPANS: return Task::kAnswer;
    default: return Task::kEncode;
  }
}

void check_task(const proto::Prompt& prompt, const ModelConfig& config) {
  const TaskSet tasks = tasks_of(config);
  const Task asked = task_of(prompt);
  if (tasks.has(asked)) return;
  std::string message =
      printable(config.architecture) + " is no model that " + words_of(asked).does + "; it ";
  for (const TaskWords& words : kWords) {
    if (!tasks.has(words.task)) continue;
    message += std::string(words.does) + ": " + words.how;
    break;
  }
  throw not_supported("model", message);
}

}  // namespace tandem
