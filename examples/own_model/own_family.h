// The family of this example.
#pragma once

#include <tandem/family.h>

namespace own {

tandem::ModelFamily family();

}  // namespace own
