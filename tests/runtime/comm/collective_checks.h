// What every backend must do, as checks over a given world.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/comm/collective.h"

namespace lockstep::runtime {

// A byte that depends on who sends it, to whom, where and in which round.
inline std::byte sample_byte(int source, int target, size_t index, int round) {
  const size_t mixed = static_cast<size_t>(source) * 131 + static_cast<size_t>(target) * 31 +
                       index * 7 + index / 251 + static_cast<size_t>(round) * 17;
  return static_cast<std::byte>(mixed & 0xff);
}

// all_gather of `bytes` per rank, from a buffer of its own or in place.
inline void check_all_gather(Collective& collective, size_t bytes, bool in_place, int round) {
  const auto ranks = static_cast<size_t>(collective.world_size());
  const auto rank = static_cast<size_t>(collective.rank());
  std::vector<std::byte> full(ranks * bytes);
  std::vector<std::byte> own(bytes);
  for (size_t i = 0; i < bytes; ++i) own[i] = sample_byte(collective.rank(), 0, i, round);
  std::span<const std::byte> shard = own;
  if (in_place) {
    std::copy(own.begin(), own.end(), full.begin() + static_cast<std::ptrdiff_t>(rank * bytes));
    shard = std::span<const std::byte>(full).subspan(rank * bytes, bytes);
  }
  collective.all_gather(shard, full, "gather check")->wait();
  for (size_t source = 0; source < ranks; ++source) {
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(full[source * bytes + i], sample_byte(static_cast<int>(source), 0, i, round))
          << "rank " << rank << " from " << source << " byte " << i << " of " << bytes;
    }
  }
}

inline void check_all_to_all(Collective& collective, size_t bytes, int round) {
  const auto ranks = static_cast<size_t>(collective.world_size());
  const int rank = collective.rank();
  std::vector<std::byte> send(ranks * bytes);
  std::vector<std::byte> recv(ranks * bytes);
  for (size_t target = 0; target < ranks; ++target) {
    for (size_t i = 0; i < bytes; ++i) {
      send[target * bytes + i] = sample_byte(rank, static_cast<int>(target), i, round);
    }
  }
  collective.all_to_all(send, recv, "exchange check", Reach::kWorld)->wait();
  for (size_t source = 0; source < ranks; ++source) {
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(recv[source * bytes + i], sample_byte(static_cast<int>(source), rank, i, round))
          << "rank " << rank << " from " << source << " byte " << i << " of " << bytes;
    }
  }
}

// Unit k+1 is gathered while unit k is waited for, and exchanges run between them.
inline void check_overlap(Collective& collective, int num_units) {
  constexpr size_t kBytes = 5000;
  const auto ranks = static_cast<size_t>(collective.world_size());
  std::vector<std::vector<std::byte>> full(static_cast<size_t>(num_units));
  std::vector<std::vector<std::byte>> own(static_cast<size_t>(num_units));
  std::vector<PendingPtr> pending(static_cast<size_t>(num_units));
  const auto issue = [&](size_t unit) {
    own[unit].assign(kBytes, sample_byte(collective.rank(), 0, unit, 0));
    full[unit].resize(ranks * kBytes);
    pending[unit] = collective.all_gather(own[unit], full[unit], "unit " + std::to_string(unit));
  };
  issue(0);
  for (size_t unit = 0; unit < full.size(); ++unit) {
    if (unit + 1 < full.size()) issue(unit + 1);
    pending[unit]->wait();
    for (size_t source = 0; source < ranks; ++source) {
      ASSERT_EQ(full[unit][source * kBytes + kBytes - 1],
                sample_byte(static_cast<int>(source), 0, unit, 0));
    }
    check_all_to_all(collective, 300, static_cast<int>(unit));
  }
}

// All ranks are in the same collective, but `divergent` names another unit: it is the one that is
// told so, and the others name it.
inline void check_divergence(Collective& collective, int divergent) {
  collective.begin_step(3);
  check_all_to_all(collective, 100, 0);
  const bool diverges = collective.rank() == divergent;
  std::vector<std::byte> own(4);
  std::vector<std::byte> full(4 * static_cast<size_t>(collective.world_size()));
  const std::string culprit = "rank " + std::to_string(divergent);
  std::string message;
  try {
    collective.all_gather(own, full, diverges ? "unit layer.1" : "unit layer.0")->wait();
  } catch (const PeerLostError& error) {
    EXPECT_FALSE(diverges) << error.what();
    message = error.what();
    EXPECT_NE(message.find(culprit + " is in another collective"), std::string::npos) << message;
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(diverges) << error.what();
    message = error.what();
    EXPECT_NE(message.find("this rank is in another collective"), std::string::npos) << message;
  }
  EXPECT_NE(message.find(culprit + " in operation 2 (all_gather of unit layer.1, step 3)"),
            std::string::npos)
      << message;
}

// Exchanges with the ranks of this host, and with those of its place on other hosts.
inline void check_reach(Collective& collective, size_t bytes) {
  const int per_host = collective.topology().ranks_per_host;
  const int place = collective.rank() % per_host;
  for (const Reach reach : {Reach::kInside, Reach::kAcross}) {
    std::vector<int> peers;
    for (int rank = 0; rank < collective.world_size(); ++rank) {
      const bool is_inside = rank / per_host == collective.rank() / per_host;
      if (reach == Reach::kInside ? is_inside : rank % per_host == place) peers.push_back(rank);
    }
    std::vector<std::byte> send(peers.size() * bytes);
    std::vector<std::byte> recv(peers.size() * bytes);
    for (size_t i = 0; i < send.size(); ++i) {
      send[i] = sample_byte(collective.rank(), peers[i / bytes], i % bytes, 0);
    }
    collective.all_to_all(send, recv, "reach check", reach)->wait();
    for (size_t i = 0; i < recv.size(); ++i) {
      ASSERT_EQ(recv[i], sample_byte(peers[i / bytes], collective.rank(), i % bytes, 0));
    }
  }
}

// Groups of `size` consecutive ranks, and the replicas of each.
inline void check_groups(Collective& collective, int size, size_t bytes) {
  std::vector<int> shards;
  std::vector<int> replicas;
  for (int rank = 0; rank < collective.world_size(); ++rank) {
    if (rank / size == collective.rank() / size) shards.push_back(rank);
    if (rank % size == collective.rank() % size) replicas.push_back(rank);
  }
  for (const std::vector<int>& members : {shards, replicas}) {
    const auto group = collective.split(members);
    ASSERT_EQ(members[static_cast<size_t>(group->rank())], collective.rank());
    check_all_gather(*group, bytes, true, 0);
    check_all_to_all(*group, bytes, 1);
  }
}

// Sizes around and far beyond `chunk_bytes`, the backend's own unit of transfer.
inline void check_backend(Collective& collective, size_t chunk_bytes) {
  int round = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{4097}, chunk_bytes - 1,
                             chunk_bytes, chunk_bytes + 1, 5 * chunk_bytes + 13}) {
    check_all_gather(collective, bytes, false, round++);
    check_all_gather(collective, bytes, true, round++);
    check_all_to_all(collective, bytes, round++);
  }
  check_overlap(collective, 6);
}

// Two groups of every other rank, in reverse order, work beside each other and beside the world.
// `collective` has at least four ranks.
inline void check_split(Collective& collective, size_t chunk_bytes) {
  std::vector<int> members;
  for (int rank = collective.world_size() - 1; rank >= 0; --rank) {
    if (rank % 2 == collective.rank() % 2) members.push_back(rank);
  }
  const std::unique_ptr<Collective> group = collective.split(members);
  ASSERT_EQ(group->world_size(), static_cast<int>(members.size()));
  ASSERT_EQ(members[static_cast<size_t>(group->rank())], collective.rank());
  EXPECT_EQ(group->backend(), collective.backend());
  check_backend(*group, chunk_bytes);
  const std::vector<int> alone = {collective.rank()};
  EXPECT_EQ(collective.split(alone)->world_size(), 1);

  const auto world_size = static_cast<size_t>(collective.world_size());
  std::vector<std::byte> own(5000, static_cast<std::byte>(collective.rank()));
  std::vector<std::byte> of_world(own.size() * world_size);
  std::vector<std::byte> of_group(own.size() * members.size());
  const PendingPtr slow = collective.all_gather(own, of_world, "world");
  group->all_gather(own, of_group, "group")->wait();
  slow->wait();
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(of_group[i * own.size()], static_cast<std::byte>(members[i]));
  }
  EXPECT_EQ(of_world.back(), static_cast<std::byte>(world_size - 1));
}

}  // namespace lockstep::runtime
