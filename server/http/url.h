// Targets and ids of requests.
#pragma once

#include <string>

namespace tandem::server {

// "/a%20b?c=d" → "/a b", "c=d". Escapes that make no sense stay as they are.
void split_target(const std::string& target, std::string& path, std::string& query);
// 32 hexadecimal digits.
std::string random_id();
// 1 to 128 printable ASCII characters without blanks, quotes and backslashes: fit for a log.
bool is_request_id(const std::string& text);
// The client's, if it is one; else a random one.
std::string request_id_of(const std::string* given);

}  // namespace tandem::server
