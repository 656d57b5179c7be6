// Tandem's engine in your own process: EngineApi and LocalEngine, their configuration, and readers
// of prompts and options. docs/design/architecture.md
//
//   find_package(Tandem COMPONENTS engine)    # target Tandem::engine
//
// Everything is in the namespace tandem. Bad input throws InputError.
#pragma once

#include "base/error.h"                            // IWYU pragma: export
#include "runtime/engine/engine_api.h"             // IWYU pragma: export
#include "runtime/engine/local_engine.h"           // IWYU pragma: export
#include "runtime/protocol/json/options_reader.h"  // IWYU pragma: export
#include "runtime/protocol/json/prompt_reader.h"   // IWYU pragma: export
