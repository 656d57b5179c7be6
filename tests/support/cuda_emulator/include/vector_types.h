// CUDA's short vectors, with CUDA's alignment. Part of the CUDA emulator.
#pragma once

#define CUDA_EMULATOR_VECTOR(T, name, align2, align4)                   \
  struct name##1 {                                                      \
    T x;                                                                \
  };                                                                    \
  struct alignas(align2) name##2 {                                      \
    T x, y;                                                             \
  };                                                                    \
  struct name##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(align4) name##4 {                                      \
    T x, y, z, w;                                                       \
  };                                                                    \
  constexpr name##1 make_##name##1(T x) { return {x}; }                 \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUDA_EMULATOR_VECTOR(signed char, char, 2, 4)
CUDA_EMULATOR_VECTOR(unsigned char, uchar, 2, 4)
CUDA_EMULATOR_VECTOR(short, short, 4, 8)
CUDA_EMULATOR_VECTOR(unsigned short, ushort, 4, 8)
CUDA_EMULATOR_VECTOR(int, int, 8, 16)
CUDA_EMULATOR_VECTOR(unsigned, uint, 8, 16)
CUDA_EMULATOR_VECTOR(float, float, 8, 16)
CUDA_EMULATOR_VECTOR(long long, longlong, 16, 16)
CUDA_EMULATOR_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDA_EMULATOR_VECTOR(double, double, 16, 16)
#undef CUDA_EMULATOR_VECTOR

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
