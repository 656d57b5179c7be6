// Where a model is: a directory, or a repository of HuggingFace's hub that is in the cache or comes
// there. docs/serving.md
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "launcher/hub/cache.h"
#include "launcher/hub/names.h"
#include "launcher/hub/settings.h"

namespace tandem::hub {

struct ModelSource {
  std::string model;              // directory or id
  std::string revision = "main";  // of a repository
  std::string download_dir;       // the cache; empty: as the environment says
  ModelFiles part = ModelFiles::kCheckpoint;
};

// The directory, which for a repository is a snapshot in the cache. Shows the progress of downloads
// on standard error. stop: asked again and again; true: throws Interrupted. Throws InputError.
std::filesystem::path find_model(const ModelSource& source, const Settings& settings,
                                 const std::function<bool()>& stop);

}  // namespace tandem::hub
