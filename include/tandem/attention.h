// Attention over FlashInfer's layouts in your own process: ragged tensors, masks, page tables,
// latent pages, cascades, and what appends to pages. docs/layouts.md, examples/attention.cc
//
//   find_package(Tandem COMPONENTS engine)    # target Tandem::engine
//
// Everything is in the namespace tandem, the ops in tandem::ops. Wrong arguments throw InputError.
#pragma once

#include "base/error.h"                  // IWYU pragma: export
#include "kernels/core/context.h"        // IWYU pragma: export
#include "kernels/layouts/layout_ops.h"  // IWYU pragma: export
