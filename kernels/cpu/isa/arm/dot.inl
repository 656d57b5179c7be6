// Instructions that take several products at once, on the bits of lanes.

// int32: acc + the four products of int8.
inline V add_i8_products(V acc, V w, V x) {
  return from_i32(vdotq_s32(as_i32(acc), as_i8(w), as_i8(x)));
}

// 16 floats within -127..127, rounded to nearest, ties to even, as int8.
inline V to_i8(const V (&v)[4]) {
  const int16x4_t a = vmovn_s32(vcvtnq_s32_f32(v[0])), b = vmovn_s32(vcvtnq_s32_f32(v[1]));
  const int16x4_t c = vmovn_s32(vcvtnq_s32_f32(v[2])), d = vmovn_s32(vcvtnq_s32_f32(v[3]));
  return vreinterpretq_f32_s8(
      vcombine_s8(vmovn_s16(vcombine_s16(a, b)), vmovn_s16(vcombine_s16(c, d))));
}

#ifdef TANDEM_ISA_BFDOT
// float: acc + the sum of the two products of bf16.
inline V add_bf16_products(V acc, V w, V x) {
  return vbfdotq_f32(acc, vreinterpretq_bf16_f32(w), vreinterpretq_bf16_f32(x));
}
#endif
