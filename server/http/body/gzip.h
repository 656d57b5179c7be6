// Compresses bodies that this process sends (RFC 1952).
#pragma once

#include <string>
#include <string_view>

namespace tandem::server {

std::string gzip(std::string_view bytes);

}  // namespace tandem::server
