// Protobuf's header of map fields as libprotobuf was compiled, without ThreadSanitizer: with it the
// header adds two members to every map field. Found before the real header in the preset `tsan`.
#pragma once

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
