# Compiles for 64-bit ARM Linux on another Debian machine: Debian's g++-aarch64-linux-gnu over a root of arm64 packages that
# are unpacked, not installed. scripts/test_aarch64 makes the root, and names it.
#
#   cmake -B build-aarch64 -G Ninja -D CMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -D TANDEM_ARM_ROOT=FOLDER
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(TANDEM_ARM_ROOT "" CACHE PATH "Root of the target's packages")
# (CMake reads this file again for each of its trials.)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TANDEM_ARM_ROOT)
if(NOT EXISTS ${TANDEM_ARM_ROOT}/usr/include)
  message(FATAL_ERROR "TANDEM_ARM_ROOT is \"${TANDEM_ARM_ROOT}\": no root of unpacked packages (scripts/test_aarch64 makes one)")
endif()
set(CMAKE_SYSROOT ${TANDEM_ARM_ROOT})
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# Programs (protoc) are this machine's; what is compiled and linked with is the root's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(libraries ${TANDEM_ARM_ROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${TANDEM_ARM_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${TANDEM_ARM_ROOT}/usr/share/pkgconfig)
# Asking mpicc would give this machine's MPI.
set(MPI_C_HEADER_DIR ${libraries}/openmpi/include CACHE PATH "")
set(MPI_C_LIB_NAMES mpi CACHE STRING "")
set(MPI_mpi_LIBRARY ${libraries}/openmpi/lib/libmpi.so CACHE FILEPATH "")
set(MPI_SKIP_COMPILER_WRAPPER TRUE)
set(MPI_ASSUME_NO_BUILTIN_MPI TRUE)

find_program(TANDEM_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(TANDEM_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TANDEM_QEMU} -L ${TANDEM_ARM_ROOT})
endif()
