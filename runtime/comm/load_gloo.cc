#include <string>

#include <dlfcn.h>

#include "runtime/comm/gloo_collective.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/common/program_library.h"

namespace lockstep::runtime {
namespace {

const Gloo& open_gloo() {
  const common::Result<void*> library =
      common::load_program_library("liblockstep-gloo.so", kGlooVersionSymbol, LOCKSTEP_VERSION);
  if (!library) throw BackendLibraryError("Gloo: " + library.error().message);
  const auto gloo = reinterpret_cast<const Gloo* (*)()>(dlsym(*library, kGlooSymbol));
  if (gloo == nullptr) throw BackendLibraryError(std::string("Gloo: ") + dlerror());
  return *gloo();
}

}  // namespace

const Gloo& load_gloo() {
  static const Gloo& gloo = open_gloo();
  return gloo;
}

}  // namespace lockstep::runtime
