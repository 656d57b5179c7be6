// Flags of vLLM, HuggingFace, CTranslate2, faster-whisper, whisper.cpp and others, and what has
// their place here.
#pragma once

#include <span>
#include <string_view>

namespace tandem::launcher {

struct ForeignFlag {
  std::string_view names;  // with blanks between, with dashes in place of underscores
  std::string_view ours;   // flags of this program that do the same, with blanks between; or empty
  std::string_view note;   // in their place, or besides; or empty
};

// What has the place of another program's command here ("run", "pull"); empty: nobody's that is
// known.
std::string_view foreign_command(std::string_view name);

// Null: nobody's that is known. name: "--beam_size", "-osrt".
const ForeignFlag* find_foreign_flag(std::string_view name);
std::span<const ForeignFlag> foreign_flags();

}  // namespace tandem::launcher
