# cpack -G DEB, in the build folder: a Debian package of the component "server" (docs/deploying.md).
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VENDOR "The Tandem authors")
set(CPACK_PACKAGE_CONTACT ${TANDEM_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference server for encoder/decoder transformers")
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
# Only what a server needs, under /usr and /etc; the libraries for clients are for `cmake --install`.
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};Tandem;server;/")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser")
# Certificates: for models from the hub. mpirun: for ranks on several hosts only.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Runs HuggingFace checkpoints of encoder/decoder transformers (BART and its
kin) as they are, and serves them under OpenAI's HTTP interface, with
continuous batching and paged caches. Workers that die are replaced without
a broken stream. With a systemd service that reads /etc/tandem/tandem.toml.")
set(scripts ${CMAKE_SOURCE_DIR}/packaging/debian)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${scripts}/conffiles ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
include(CPack)
