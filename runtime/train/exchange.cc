#include "runtime/train/exchange.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::runtime {

std::vector<std::string> gather_texts(Collective& collective, std::string_view mine,
                                      std::string_view what) {
  const auto world_size = static_cast<std::size_t>(collective.world_size());
  const std::vector<uint64_t> num_bytes =
      gather_values(collective, static_cast<uint64_t>(mine.size()), what);

  // Slices are of equal size: the longest text's, in whole words.
  const uint64_t longest = *std::max_element(num_bytes.begin(), num_bytes.end());
  const std::size_t slice_bytes = (longest + 7) / 8 * 8;
  std::vector<std::string> texts(world_size);
  if (slice_bytes == 0) return texts;
  std::string padded(mine);
  padded.resize(slice_bytes);
  std::string all(slice_bytes * world_size, '\0');
  collective
      .all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)), what)
      ->wait();
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    texts[rank] = all.substr(rank * slice_bytes, num_bytes[rank]);
  }
  return texts;
}

void require_as_rank0(Collective& collective, std::string_view mine, const RunFailure& otherwise,
                      std::string_view what) {
  const bool is_same = gather_texts(collective, mine, what).front() == mine;
  agree(collective, is_same ? std::nullopt : std::optional(otherwise), what);
}

void agree(Collective& collective, const std::optional<RunFailure>& mine, std::string_view what) {
  // A failure always has a non-empty text, whatever its message.
  const std::string text = mine ? "failed: " + mine->message : "";
  const std::vector<std::string> texts = gather_texts(collective, text, what);
  if (mine) throw RunError(*mine);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    throw PeerLostError("rank " + std::to_string(rank) + " gave up in '" + std::string(what) +
                        "', " + texts[rank]);
  }
}

}  // namespace lockstep::runtime
