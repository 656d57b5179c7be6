// Texts under labels that the user names: a request for each pair of a text and a label.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/files/document_files.h"
#include "launcher/commands/head_options.h"
#include "runtime/request/heads/label_scores.h"

namespace tandem::launcher {

// As HuggingFace's: commas between them, white space around each left out, empty ones too.
std::vector<std::string> split_labels(const std::string& labels);

// A line for people is added to `out`: the score and the label.
void add_label_line(std::string& out, double score, const std::string& label);
// The labels of a text or a file for standard output, under its text or its name; nothing: they
// have been written to its file.
std::optional<std::string> take_labels(DocumentFiles& files, size_t request,
                                       const std::string& labels);

struct ZeroShotInput {
  RequestInput texts;
  DocumentFiles* files = nullptr;  // that they are of; null: lines, or JSON requests
};

// Results in the order of the texts: JSON lines {"id", "sequence", "labels", "scores"} for --jsonl,
// else a label a line. `open` is called when it is known that this process is the one that reads.
// Returns the exit status.
int run_zero_shot(HeadOptions& options, const ZeroShot& asked,
                  const std::function<ZeroShotInput()>& open);

}  // namespace tandem::launcher
