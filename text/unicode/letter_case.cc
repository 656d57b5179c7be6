#include "text/unicode/letter_case.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringpiece.h>

#include <cstdint>

#include "base/check.h"

namespace tandem {

std::string lower_case(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, status);
  TANDEM_CHECK(U_SUCCESS(status));
  return out;
}

}  // namespace tandem
