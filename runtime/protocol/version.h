// The version of the messages in tandem.proto. Peers of another one are turned away.
#pragma once

#include <cstdint>

namespace tandem {

inline constexpr uint32_t kProtocolVersion = 3;

}  // namespace tandem
