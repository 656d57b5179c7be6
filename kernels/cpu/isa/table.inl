// The table of one level.
extern const IsaKernels TANDEM_ISA_TABLE = {
    {gemm<StepF32>, nullptr, 1, kVectorBlocking},
#ifdef TANDEM_ISA_AMX
    {gemm_amx<StepBf16>, finish_all<StepBf16>, StepBf16::kWords, kTileBlockingBf16},
    {gemm_amx_i8, finish_all<StepI8>, StepI8::kWords, kTileBlockingI8},
#else
    {gemm_bf16, nullptr, StepBf16::kWords, kVectorBlocking},
    {gemm<StepI8>, nullptr, StepI8::kWords, kVectorBlocking},
#endif
    to_bf16_steps,
    to_bf16,
    to_i8_steps,
    to_i8,
    activate,
    multiply,
    soft_cap,
    layer_norm_row,
    ragged_pack,
    ragged_attend,
#if defined(TANDEM_ISA_BF16)
    {ragged_pack_bf16, ragged_attend_bf16, kBf16Rows},
#elif defined(TANDEM_ISA_I16)
    {ragged_pack_i16, ragged_attend_i16, kRaggedRows},
#else
    {},
#endif
    window_pack,
    window_attend,
    paged_attend<float>,
    paged_attend<uint16_t>,
    paged_attend<int8_t>,
    paged_attend_shared<float>,
    paged_attend_shared<uint16_t>,
    paged_attend_shared<int8_t>,
    score_run<float>,
    score_run<uint16_t>,
    add_run<float>,
    add_run<uint16_t>,
    softmax_row,
    find_peak,
    exp_all,
    sum_exp,
    sum_blocks,
    gemm_i4,
    to_i4_groups,
    expand_i4,
};
