// The task that a request asks for, and whether the model has it.
#pragma once

#include "models/config/config.h"
#include "models/task.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

Task task_of(const proto::Prompt& prompt);
// Throws InputError that names the task, and the command and the route for what the model does.
void check_task(const proto::Prompt& prompt, const ModelConfig& config);

}  // namespace tandem
