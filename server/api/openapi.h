// The interface as an OpenAPI 3.1 document.
#pragma once

#include <string>

namespace tandem::server {

std::string openapi_document(const std::string& version);

}  // namespace tandem::server
