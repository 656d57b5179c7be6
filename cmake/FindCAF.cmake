# The C++ Actor Framework, 0.17: Debian's libcaf-dev has no CMake files of its own. Targets CAF::core and CAF::io.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
find_library(CAF_IO_LIBRARY caf_io)
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY CAF_IO_LIBRARY)

# CAF_VERSION is MAJOR * 10000 + MINOR * 100 + PATCH.
if(CAF_INCLUDE_DIR AND EXISTS ${CAF_INCLUDE_DIR}/caf/config.hpp)
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp CAF_VERSION_LINE REGEX "#define CAF_VERSION [0-9]+")
  if(CAF_VERSION_LINE MATCHES "CAF_VERSION ([0-9]*)([0-9][0-9])([0-9][0-9])")
    math(EXPR CAF_MINOR "0${CMAKE_MATCH_1} * 100 + ${CMAKE_MATCH_2}")
    math(EXPR CAF_MAJOR "${CAF_MINOR} / 100")
    math(EXPR CAF_MINOR "${CAF_MINOR} % 100")
    math(EXPR CAF_PATCH "${CMAKE_MATCH_3}")
    set(CAF_VERSION ${CAF_MAJOR}.${CAF_MINOR}.${CAF_PATCH})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_IO_LIBRARY CAF_INCLUDE_DIR
                                  VERSION_VAR CAF_VERSION HANDLE_VERSION_RANGE)
if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES IMPORTED_LOCATION ${CAF_CORE_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
  add_library(CAF::io UNKNOWN IMPORTED)
  set_target_properties(CAF::io PROPERTIES IMPORTED_LOCATION ${CAF_IO_LIBRARY} INTERFACE_LINK_LIBRARIES CAF::core)
endif()
