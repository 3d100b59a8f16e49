// The files of a repository at one commit, as the hub lists them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/common/result.h"

namespace lockstep::runtime {

struct RepoFile {
  int64_t num_bytes = 0;
  std::string blob_id;     // git's name of the object: 40 hexadecimal digits
  std::string lfs_sha256;  // of a file that git holds a pointer to: 64 digits; else empty
  std::string xet_hash;    // not used, but kept for others who read the cache; may be empty

  // What the file is called among a cache's blobs; the checksum of its contents.
  const std::string& etag() const { return lfs_sha256.empty() ? blob_id : lfs_sha256; }
  bool operator==(const RepoFile&) const = default;
};

using RepoTree = std::map<std::string, RepoFile>;  // by path

// Adds the files of a page of GET /api/{models,datasets}/ORG/NAME/tree/COMMIT?recursive=true.
// kDataLoss for what is no such page, or a name that leads out of a folder.
common::Result<void> add_tree_page(std::string_view text, RepoTree& tree);

// A cache's file trees/COMMIT.json, in huggingface_hub's format, version 1.
std::string encode_tree(const RepoTree& tree);
// kDataLoss for anything else.
common::Result<RepoTree> decode_tree(std::string_view text);

}  // namespace lockstep::runtime
