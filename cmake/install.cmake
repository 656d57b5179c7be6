# cmake --install build [--prefix DIR]: the program and its licence; the demo model with TANDEM_INSTALL_DEMO.
# The client library (component "client") for find_package(Tandem): one public header and the messages.
include(GNUInstallDirs)
option(TANDEM_INSTALL_DEMO "Install the demo model and the example texts as well" OFF)
if(TARGET tandem)
  install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TANDEM_INSTALL_DEMO)
  install(DIRECTORY examples/demo-model examples/texts DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem)
endif()

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tandem)
install(FILES client/tandem_client.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/client COMPONENT client)
install(FILES ${CMAKE_BINARY_DIR}/generated/runtime/protocol/tandem.pb.h runtime/protocol/tandem.proto
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/runtime/protocol COMPONENT client)
install(TARGETS tandem_client tandem_actor_protocol tandem_protocol EXPORT TandemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${package} COMPONENT client)
configure_package_config_file(cmake/TandemConfig.cmake.in ${CMAKE_BINARY_DIR}/TandemConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TandemConfig.cmake ${CMAKE_BINARY_DIR}/TandemConfigVersion.cmake cmake/FindCAF.cmake
        DESTINATION ${package} COMPONENT client)
