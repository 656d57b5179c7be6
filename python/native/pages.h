// Pages of PDF files for programs that load the library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tandem::library {

// As tandem_pdf_pages() and tandem_page_image() (library.h): {"pages"}, and a PNG file. Throw
// InputError, whose param is "image", "pages" or "dpi".
nlohmann::json pdf_pages(const nlohmann::json& request, std::string_view bytes);
std::string pdf_page_image(const nlohmann::json& request, std::string_view bytes);

}  // namespace tandem::library
