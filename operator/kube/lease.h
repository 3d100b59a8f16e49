// A Lease of coordination.k8s.io: who leads, in the fields that client-go writes.
// Source: kubernetes/client-go tools/leaderelection/resourcelock/leaselock.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"

namespace lockstep::kube {

struct LeaseRecord {
  std::string holder;                // empty: nobody leads
  std::chrono::seconds duration{0};  // how long the holder leads from a renewal on
  // Texts for people. Nobody's clock but one's own is believed, so nothing is decided by them.
  std::string acquire_time, renew_time;
  int64_t transitions = 0;  // how often another holder has taken over
  bool operator==(const LeaseRecord&) const = default;
};

struct Lease {
  LeaseRecord record;
  std::string version;  // resourceVersion that the record was read at
  std::string uid;
};

ResourcePath lease_path(const std::string& ns, const std::string& name);

// What is missing or of another type reads as empty or 0.
Lease decode_lease(const nlohmann::json& object);

// An object for a create (empty `version`), or for a replace of that version.
nlohmann::json encode_lease(const ResourcePath& path, const LeaseRecord& record,
                            const std::string& version);

// "2026-01-31T12:00:00.000000Z", as a MicroTime is written.
std::string format_micro_time(std::chrono::system_clock::time_point time);

}  // namespace lockstep::kube
