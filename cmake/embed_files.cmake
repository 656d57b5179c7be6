# Run by tandem_embed (embed.cmake): writes FOLDER/HEADER and FOLDER/SOURCE.
set(declarations "")
set(definitions "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REPLACE "." "_" name ${name})
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND declarations "extern const std::string_view ${name};\n")
  string(APPEND definitions "static constexpr unsigned char ${name}_bytes[] = {${bytes}0};\n"
         "const std::string_view ${name}(reinterpret_cast<const char*>(${name}_bytes), ${length});\n")
endforeach()
file(WRITE ${FOLDER}/${HEADER}
     "// Generated.\n#pragma once\n#include <string_view>\nnamespace ${NAMESPACE} {\n${declarations}}\n")
file(WRITE ${FOLDER}/${SOURCE} "// Generated.\n#include \"${HEADER}\"\nnamespace ${NAMESPACE} {\n${definitions}}\n")
