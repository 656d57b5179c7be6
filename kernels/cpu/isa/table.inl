// The table of one level.
extern const IsaKernels TANDEM_ISA_TABLE = {
    gemm<StepF32>, gemm<StepBf16>, StepBf16::kWords,    to_bf16_steps,
    gemm<StepI8>,  StepI8::kWords, to_i8_steps,         activate,
    soft_cap,      layer_norm_row, ragged_pack,         ragged_attend,
    window_pack,   window_attend,  paged_attend<float>, paged_attend<uint16_t>,
};
