// Collectives over TCP by c10d's ProcessGroupGloo, which a library of its own holds: LibTorch is
// loaded by ranks that need it, and by no others.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "runtime/comm/async_collective.h"
#include "runtime/comm/key_store.h"
#include "runtime/comm/standing.h"

namespace lockstep::runtime {

struct GlooOptions {
  int rank = 0;
  int world_size = 1;
  std::string local_address;  // numeric; peers dial it
  std::chrono::milliseconds timeout{600'000};
  std::string reason{};  // of the topology
};

class Gloo {
 public:
  virtual ~Gloo() = default;

  // Connects all ranks through `store`, which must be a prefix that no other group uses (a second
  // group on the same keys would pick up the first one's addresses). Throws what c10d throws if the
  // ranks do not meet.
  //   view: where the ranks stand; its board hears of them already.
  virtual std::unique_ptr<Transport> make_transport(const KeyStore& store,
                                                    const GlooOptions& options,
                                                    BoardView view) const = 0;

  // A group of `members` of `world`, in that order, as Transport::split().
  //   store: as above; it is the same for all groups of one split.
  //   options: of the world.
  //   view: of the world's ranks.
  // Throws as a collective of `world` if the members do not meet: what they lost or waited for.
  virtual std::unique_ptr<Transport> make_group(Transport& world, const KeyStore& store,
                                                const GlooOptions& options, const BoardView& view,
                                                std::span<const int> members,
                                                const Standing& own) const = 0;
};

// Loads liblockstep-gloo.so, once: from the program's own folder, else as the loader finds it (the
// program's RUNPATH, LD_LIBRARY_PATH, the system's folders). It stays until the process ends.
// Throws BackendLibraryError if it cannot be loaded or is of another version.
const Gloo& load_gloo();

// The functions that the library exports: what its version is, and its one Gloo.
inline constexpr char kGlooVersionSymbol[] = "lockstep_gloo_version";
inline constexpr char kGlooSymbol[] = "lockstep_gloo";

}  // namespace lockstep::runtime
