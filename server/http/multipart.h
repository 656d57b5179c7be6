// multipart/form-data (RFC 7578, RFC 2046), as browsers, curl and HTTP libraries send it. Our own,
// because Boost.Beast has none, and what Debian packages reads mail (GMime), streams without bounds
// (Poco), or belongs to another server (libmicrohttpd).
//
// What is no form of the standard is refused, not guessed at: a line end without CR, headers that
// are folded or have no name, two names, a body that ends before its last boundary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::server {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // as the client says; no path of this host
  std::string_view content;             // in the body, of any bytes
};

struct FormLimits {
  size_t parts = 256;
  size_t header_bytes = 4096;  // of a part
};

// The boundary that a Content-Type names, 1 to 70 characters. Throws InputError (content-type): it
// is no multipart/form-data, or has no boundary.
std::string boundary_of(std::string_view content_type);

// The parts in their order; their contents live as long as `body`. Takes time in proportion to the
// body. Throws InputError (body).
std::vector<FormPart> parse_form(std::string_view body, std::string_view boundary,
                                 const FormLimits& limits = {});

}  // namespace tandem::server
