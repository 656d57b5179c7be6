// What a model family outside the tree is made of: ModelFamily, the blocks of encoders and
// decoders, and the layers in them. docs/models.md, examples/own_model
//
//   find_package(Tandem COMPONENTS engine)    # target Tandem::engine
//
// Everything is in the namespace tandem.
#pragma once

#include "models/blocks/seq2seq.h"  // IWYU pragma: export
#include "models/family.h"          // IWYU pragma: export
