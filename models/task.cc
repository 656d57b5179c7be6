#include "models/task.h"

#include "models/family.h"

namespace tandem {

TaskSet tasks_of_class(const ModelConfig& config) {
  const std::string& name = config.architecture;
  if (name.ends_with("ForSequenceClassification")) return {Task::kEncode, Task::kClassify};
  if (name.ends_with("ForQuestionAnswering")) return {Task::kEncode, Task::kAnswer};
  if (name.ends_with("EncoderModel")) return {Task::kEncode};
  return {Task::kGenerate, Task::kScore, Task::kEncode};
}

TaskSet tasks_of(const ModelConfig& config) {
  const ModelFamily* family = family_of_type(config.model_type);
  return (family != nullptr ? family->tasks : tasks_of_class)(config);
}

}  // namespace tandem
