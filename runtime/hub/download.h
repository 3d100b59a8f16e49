// Files of one commit, from the hub into a cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hub/hub_cache.h"
#include "runtime/hub/hub_session.h"

namespace lockstep::runtime {

// How far a fetch is; read by another thread.
struct FetchProgress {
  std::atomic<int64_t> files_wanted{0};
  std::atomic<int64_t> bytes_wanted{0};  // of files that were not in the cache
  std::atomic<int64_t> bytes_come{0};    // of those
};

// What files are of.
struct CommitFiles {
  common::HubReference reference;
  std::string commit;
  RepoTree tree;
};

// Sees to it that `paths` of the commit are in the cache: fetches what is not, one file after the
// other. Of several processes with one cache one fetches a file, the others wait for it.
//
// Note [A file comes]
// Contents go to blobs/ETAG.incomplete, where a later attempt goes on. Once they are whole, their
// checksum is compared with the hub's, they are synced and get their name by a rename; so what has
// a name is whole, whoever is killed when. Writers write at the place of each byte: where a file
// system's locks do not work, two of them write the same.
//
// Errors: those of error_of(); kDataLoss if contents come twice with another checksum than the
// hub's; kNotFound for what is missing in offline mode; kUnavailable for a full disk, or once told
// to stop; what the system says of the cache's files.
common::Result<void> fetch_files(const HubSession& session, const CommitFiles& files,
                                 const std::vector<std::string>& paths, FetchProgress& progress);

}  // namespace lockstep::runtime
