// The version of the messages in tandem.proto. Peers of another one are turned away.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

inline constexpr uint32_t kProtocolVersion = 4;

// "the server speaks version 3 of the protocol, this client version 4: …", for whoever reads it.
inline std::string version_mismatch(const std::string& peer, uint32_t its_version,
                                    const std::string& self) {
  return "the " + peer + " speaks version " + std::to_string(its_version) +
         " of the protocol, this " + self + " version " + std::to_string(kProtocolVersion) +
         ": both must be of the same release of Tandem";
}

}  // namespace tandem
