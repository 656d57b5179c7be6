# cmake --install build [--prefix DIR]: the component "server" (the program, its service, manual page, completions, dashboards
# and documents; the demo model with TANDEM_INSTALL_DEMO), "cuda", the plugin for GPUs where it is built, and "client", the
# client library for find_package(Tandem): one public header and the messages (docs/deploying.md). "engine", beside "client":
# the engine's libraries and headers, for programs with model families of their own
# (find_package(Tandem COMPONENTS engine); docs/models.md).
include(GNUInstallDirs)
option(TANDEM_INSTALL_DEMO "Install the demo model and the example texts as well" OFF)
if(TARGET tandem)
  install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT server)
  # Where the program looks for it (runtime/media/decoder_process.cc).
  install(TARGETS tandem-decoder RUNTIME DESTINATION libexec/tandem COMPONENT server)
  if(TARGET tandem-page-decoder)
    install(TARGETS tandem-page-decoder RUNTIME DESTINATION libexec/tandem COMPONENT server)
  endif()
endif()
# Where the program looks for plugins, whatever the distribution calls its folders of libraries
# (parallel/communicators/mpi_calls.h, kernels/core/plugin.h).
if(TARGET tandem_mpi)
  install(TARGETS tandem_mpi LIBRARY DESTINATION lib/tandem COMPONENT server)
endif()
# Of its own: what a server needs has no CUDA library.
if(TARGET tandem_cuda)
  install(TARGETS tandem_cuda LIBRARY DESTINATION lib/tandem COMPONENT cuda OPTIONAL)
endif()
set(doc ${CMAKE_INSTALL_DATADIR}/doc/tandem)
install(FILES README.md packaging/debian/copyright DESTINATION ${doc} COMPONENT server)
install(DIRECTORY docs/ DESTINATION ${doc} COMPONENT server FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN *.png)
foreach(folder docker kubernetes otel slurm)
  install(DIRECTORY packaging/${folder} DESTINATION ${doc}/examples COMPONENT server)
endforeach()
install(DIRECTORY packaging/grafana packaging/prometheus DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem COMPONENT server)
install(FILES packaging/completions/tandem.bash RENAME tandem COMPONENT server
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES packaging/completions/tandem.fish COMPONENT server
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
# As Debian's tools know who makes a package; example.org stands for nobody's address.
if(DEFINED ENV{DEBEMAIL} AND DEFINED ENV{DEBFULLNAME})
  set(maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
else()
  set(maintainer "The Tandem authors <tandem@example.org>")
endif()
set(TANDEM_MAINTAINER "${maintainer}" CACHE STRING "Maintainer of the packages")
install(CODE "set(source \"${CMAKE_SOURCE_DIR}\")\nset(binary \"${CMAKE_BINARY_DIR}\")" COMPONENT server)
install(CODE "set(version \"${PROJECT_VERSION}\")\nset(maintainer \"${TANDEM_MAINTAINER}\")" COMPONENT server)
install(SCRIPT cmake/install_system_files.cmake COMPONENT server)
if(TANDEM_INSTALL_DEMO)
  install(DIRECTORY examples/demo-model examples/texts DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem COMPONENT server)
endif()
include(package)

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tandem)
# Programs include <tandem/attention.h>, <tandem/client.h>, <tandem/engine.h> and <tandem/family.h> alone; what those include lies in internal/.
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
install(FILES include/tandem/client.h DESTINATION ${headers} COMPONENT client)
install(FILES include/tandem/attention.h include/tandem/engine.h include/tandem/family.h DESTINATION ${headers} COMPONENT engine)
install(FILES client/tandem_client.h DESTINATION ${headers}/internal/client COMPONENT client)
install(FILES ${CMAKE_BINARY_DIR}/generated/runtime/protocol/tandem.pb.h ${CMAKE_BINARY_DIR}/generated/runtime/protocol/engine_config.pb.h
              runtime/protocol/tandem.proto runtime/protocol/engine_config.proto
        DESTINATION ${headers}/internal/runtime/protocol COMPONENT client)
install(TARGETS tandem_client tandem_actor_protocol tandem_request_reader tandem_protocol tandem_base EXPORT TandemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${headers}/internal)
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${package} COMPONENT client)
configure_package_config_file(cmake/TandemConfig.cmake.in ${CMAKE_BINARY_DIR}/TandemConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TandemConfig.cmake ${CMAKE_BINARY_DIR}/TandemConfigVersion.cmake cmake/FindCAF.cmake cmake/FindCLD2.cmake
        DESTINATION ${package} COMPONENT client)

# (base and the messages are the client's.)
set(engine_components log kernels parallel text grammar models media request sampling scheduling execution engine)
set(engine_targets tandem_options)
foreach(component ${engine_components})
  list(APPEND engine_targets tandem_${component})
  set_target_properties(tandem_${component} PROPERTIES EXPORT_NAME ${component})
endforeach()
set_target_properties(tandem_options PROPERTIES EXPORT_NAME options)
install(TARGETS ${engine_targets} EXPORT TandemEngineTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT engine
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${headers}/internal)
install(EXPORT TandemEngineTargets NAMESPACE Tandem:: DESTINATION ${package} COMPONENT engine)
install(DIRECTORY base kernels parallel text models runtime DESTINATION ${headers}/internal
        COMPONENT engine FILES_MATCHING PATTERN *.h PATTERN kernels/cuda EXCLUDE PATTERN kernels/cpu EXCLUDE)
