# tandem_component(NAME [FOLDERS folders] DEPENDS other-components LIBRARIES targets): a static library, tandem_NAME, of
# the .cc files of this folder, or of the folders that are named.
function(tandem_component name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;DEPENDS;LIBRARIES" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS .)
  endif()
  list(TRANSFORM ARG_FOLDERS APPEND /*.cc OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  add_library(tandem_${name} STATIC ${sources})
  add_library(Tandem::${name} ALIAS tandem_${name})
  target_include_directories(tandem_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  list(TRANSFORM ARG_DEPENDS PREPEND tandem_)
  target_link_libraries(tandem_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES}
                        $<BUILD_INTERFACE:tandem_options>)
endfunction()

# Compile options of our own code.
add_library(tandem_options INTERFACE)
target_compile_options(tandem_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
# Products are fused where a kernel says so (kernels/CMakeLists.txt), nowhere else: plain loops give the bits of the kernels
# that stand in for them. (g++ fuses on its own where all processors can, which x86-64's cannot.)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tandem_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
endif()
if(TANDEM_SANITIZE)
  # A target with the property TANDEM_NO_THREAD_SANITIZER is compiled without that one.
  set(sanitizers -fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE STREQUAL "thread")
    set(sanitizers $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TANDEM_NO_THREAD_SANITIZER>>>:-fsanitize=thread>)
  endif()
  target_compile_options(tandem_options INTERFACE ${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  if(TANDEM_SANITIZE MATCHES "address.*undefined")
    # AddressSanitizer sees what goes through a null pointer; to check each one takes a third of the compiler's time.
    target_compile_options(tandem_options INTERFACE -fno-sanitize=null)
  endif()
  # libonig has a regcomp() too. The sanitizers take the next one behind their own, but always the C library's regexec().
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE}
                      "LINKER:--push-state,--no-as-needed" -l:libc.so.6 "LINKER:--pop-state")
endif()

# tandem_precompile(TARGET HEADERS headers): the headers that most of the target's files read, read once; a few of the
# standard library come with them. Every file still names what it needs: with TANDEM_PRECOMPILE=OFF it builds without. Files
# that TANDEM_UNITY compiles together do without: to write the headers down takes 8 s a target, and to load them again as long
# as to read them.
function(tandem_precompile target)
  cmake_parse_arguments(ARG "" "" "HEADERS" ${ARGN})
  if(TANDEM_PRECOMPILE AND NOT TANDEM_UNITY)
    target_precompile_headers(${target} PRIVATE <algorithm> <filesystem> <functional> <map> <memory> <optional> <string>
                              <unordered_map> <vector> ${ARG_HEADERS})
  endif()
endfunction()

# tandem_unity(TARGET [BATCH n | DEAL n] [EXCLUDE patterns]): where TANDEM_UNITY is ON, the target's files are compiled n at a time (20),
# but for those that match a pattern: headers are read and templates made once for all of them. DEAL: they are dealt out to n
# batches like cards, so that heavy neighbours are not in one. In unnamed namespaces no two of these files may have one name for
# two things. TANDEM_ALONE has patterns of a developer's: who adds a file and names it there keeps the others where they were,
# so that they are not compiled again.
function(tandem_unity target)
  cmake_parse_arguments(ARG "" "BATCH;DEAL" "EXCLUDE" ${ARGN})
  if(NOT TANDEM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(pattern ${ARG_EXCLUDE} ${TANDEM_ALONE})
    set(matching ${sources})
    list(FILTER matching INCLUDE REGEX ${pattern})
    set_source_files_properties(${matching} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  set(batch 20)
  if(ARG_BATCH)
    set(batch ${ARG_BATCH})
  endif()
  # (g++ takes an unnamed namespace of an included file for that of a header.)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  if(ARG_DEAL)
    set(at 0)
    foreach(source ${sources})
      math(EXPR group "${at} % ${ARG_DEAL}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
      math(EXPR at "${at} + 1")
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  endif()
endfunction()

# tandem_no_restrict(TARGET…): std::string + "…" makes g++ 12 warn of overlapping memcpy() where there is none
# (GCC bug 105651, mended in 13).
function(tandem_no_restrict)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -Wno-restrict)
    endforeach()
  endif()
endfunction()

# tandem_compile_light(TARGET…): -O1, for code that takes little of a request's time. Compiling it takes a quarter less.
function(tandem_compile_light)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()
