# tandem_embed(TARGET NAMESPACE HEADER FILE…): the files' bytes as std::string_view NAMESPACE::<name>, with dots as
# underscores; HEADER (written below the generated folder) declares them. Made anew when a file changes.
function(tandem_embed target namespace header)
  set(folder ${CMAKE_BINARY_DIR}/generated)
  string(REGEX REPLACE "\\.h$" ".cc" source ${header})
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  add_custom_command(
    OUTPUT ${folder}/${source} ${folder}/${header}
    COMMAND ${CMAKE_COMMAND} -D NAMESPACE=${namespace} -D HEADER=${header} -D SOURCE=${source} -D FOLDER=${folder}
            "-DFILES=${files}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    COMMENT "Embedding ${header}" VERBATIM)
  target_sources(${target} PRIVATE ${folder}/${source} ${folder}/${header})
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
