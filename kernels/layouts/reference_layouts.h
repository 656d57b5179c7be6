// Plain versions of the ops of kernels/layouts/layout_ops.h, for tests: double precision inside,
// one element at a time. Of checked arguments on the host, in f32; pages of f32 or bf16.
#pragma once

#include "kernels/layouts/layout_ops.h"

namespace tandem::reference {

void attend_ragged(const ops::AttendRaggedArgs& args);
void attend_pages(const ops::AttendPagesArgs& args);
void attend_latent(const ops::AttendLatentArgs& args);
void attend_cascade(const ops::AttendCascadeArgs& args);
void merge_states(const ops::MergeStatesArgs& args);
void append_pages(const ops::AppendPagesArgs& args);
void append_latent(const ops::AppendLatentArgs& args);
void pack_bits(const ops::PackBitsArgs& args);

}  // namespace tandem::reference
