// The interface as an OpenAPI 3.1 document: the table of routes, with the schemas of
// server/api/schemas.
#pragma once

#include <string>

namespace tandem::server {

// root: what a proxy puts before each path; empty: nothing.
std::string openapi_document(const std::string& version, const std::string& root);

}  // namespace tandem::server
