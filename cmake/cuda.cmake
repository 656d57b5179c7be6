# CUDA is optional. TANDEM_CUDA=AUTO looks for a toolkit and says what it found, ON fails without one, OFF does not look.
# The CPU build is complete either way: the main binary never links a CUDA library (a backend is a plugin of its own,
# added as target tandem_cuda where TANDEM_CUDA_FOUND holds).
set(TANDEM_CUDA "AUTO" CACHE STRING "CUDA plugin: AUTO, ON or OFF")
set_property(CACHE TANDEM_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TANDEM_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TANDEM_CUDA is \"${TANDEM_CUDA}\": AUTO, ON or OFF are possible")
endif()

set(TANDEM_CUDA_FOUND FALSE)
if(NOT TANDEM_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  # A toolkit without nvcc (headers of a wheel, say) cannot build kernels.
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(TANDEM_CUDA_FOUND TRUE)
  elseif(TANDEM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TANDEM_CUDA is ON, but no CUDA toolkit with nvcc was found (set CUDAToolkit_ROOT)")
  endif()
endif()

if(TANDEM_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: not looked for (TANDEM_CUDA=OFF)")
elseif(TANDEM_CUDA_FOUND)
  message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR}; this version has no CUDA kernels yet")
else()
  message(STATUS "CUDA: none found; building for CPUs")
endif()
