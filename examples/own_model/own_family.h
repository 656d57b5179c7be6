// The family of this example.
#pragma once

#include "models/family.h"

namespace own {

tandem::ModelFamily family();

}  // namespace own
