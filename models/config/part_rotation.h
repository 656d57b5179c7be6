// Rotary positions of a part of each head, from config.json.
#pragma once

#include "models/config/config_reader.h"

namespace tandem {

struct PartRotation {
  int dims = 0;  // of a head
  float theta = 0;
};

// rope_parameters of transformers 5, or the keys of files before. `part`: of a head, where nothing
// says; `own_part`: where rope_parameters are there, and do not. Throws InputError naming the key,
// also for other kinds of rotation.
PartRotation read_part_rotation(const ConfigReader& in, int head_dim, double part, double own_part);

}  // namespace tandem
