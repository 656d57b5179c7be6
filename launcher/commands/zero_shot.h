// Texts under labels that the user names: a request for each pair of a text and a label.
#pragma once

#include <string>
#include <vector>

#include "launcher/commands/head_options.h"
#include "runtime/request/heads/label_scores.h"

namespace tandem::launcher {

// As HuggingFace's: commas between them, white space around each left out, empty ones too.
std::vector<std::string> split_labels(const std::string& labels);

// Results in the order of the texts: JSON lines {"id", "sequence", "labels", "scores"} for --jsonl,
// else a label a line. Returns the exit status.
int run_zero_shot(HeadOptions& options, const ZeroShot& asked);

}  // namespace tandem::launcher
