// Denormal floats, which cost a processor up to a hundred cycles each.
#pragma once

namespace lockstep::runtime {

// From now on the calling thread, and every thread that it starts, takes denormal inputs for zero
// and rounds denormal results to zero. Part of the arithmetic: the bits are equal only among ranks
// that all call it, so every rank does, first thing. Does nothing on processors other than x86-64
// and AArch64.
void flush_denormals();

}  // namespace lockstep::runtime
