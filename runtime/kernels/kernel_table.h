// The kernels of one instruction set. Training code calls the functions of elementwise.h and
// attention.h, which go through that of device(); only tests compare the tables with each other.
#pragma once

#include <vector>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

struct KernelTable {
  const char* isa = nullptr;
  decltype(&runtime::rms_norm_forward) rms_norm_forward = nullptr;
  decltype(&runtime::rms_norm_backward) rms_norm_backward = nullptr;
  decltype(&runtime::layer_norm_forward) layer_norm_forward = nullptr;
  decltype(&runtime::layer_norm_backward) layer_norm_backward = nullptr;
  decltype(&runtime::rotary_forward) rotary_forward = nullptr;
  decltype(&runtime::rotary_backward) rotary_backward = nullptr;
  decltype(&runtime::swiglu_forward) swiglu_forward = nullptr;
  decltype(&runtime::swiglu_backward) swiglu_backward = nullptr;
  decltype(&runtime::geglu_forward) geglu_forward = nullptr;
  decltype(&runtime::geglu_backward) geglu_backward = nullptr;
  decltype(&runtime::gelu_forward) gelu_forward = nullptr;
  decltype(&runtime::gelu_backward) gelu_backward = nullptr;
  decltype(&runtime::softcap_forward) softcap_forward = nullptr;
  decltype(&runtime::softcap_backward) softcap_backward = nullptr;
  decltype(&runtime::embedding_forward) embedding_forward = nullptr;
  decltype(&runtime::embedding_backward) embedding_backward = nullptr;
  decltype(&runtime::softmax) softmax = nullptr;
  decltype(&runtime::cross_entropy) cross_entropy = nullptr;
  decltype(&runtime::distill) distill = nullptr;
  decltype(&runtime::narrow) narrow = nullptr;
  decltype(&runtime::widen) widen = nullptr;
  decltype(&runtime::add_in_place) add_in_place = nullptr;
  decltype(&runtime::add_scaled) add_scaled = nullptr;
  decltype(&runtime::scale) scale = nullptr;
  decltype(&runtime::shift) shift = nullptr;
  decltype(&runtime::add_to_rows) add_to_rows = nullptr;
  decltype(&runtime::sum_columns) sum_columns = nullptr;
  decltype(&runtime::copy_columns) copy_columns = nullptr;
  decltype(&runtime::dropout) dropout = nullptr;
  decltype(&runtime::adamw) adamw = nullptr;
  decltype(&runtime::adam) adam = nullptr;
  decltype(&runtime::sgd) sgd = nullptr;
  decltype(&runtime::sum_squares_chunks) sum_squares_chunks = nullptr;
  decltype(&runtime::attention_scratch_elems) attention_scratch_elems = nullptr;
  decltype(&runtime::attention_forward) attention_forward = nullptr;
  decltype(&runtime::attention_backward) attention_backward = nullptr;
  // Of processors only: text is made on them.
  decltype(&runtime::attention_extend) attention_extend = nullptr;
};

// The tables that this processor can run, best first; "plain" is always the last.
std::vector<KernelTable> supported_kernels();

// The processor's: the best table, or the one that the environment variable LOCKSTEP_ISA names;
// decided once. Throws std::runtime_error if LOCKSTEP_ISA names one that this processor or build
// lacks.
const KernelTable& chosen_kernels();

}  // namespace lockstep::runtime
