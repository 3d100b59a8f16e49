// The cache of the Hugging Face hub on disk, as huggingface_hub lays it out: what either of the two
// has fetched, the other uses.
//
//   CACHE/models--ORG--NAME/       (datasets--ORG--NAME)
//     blobs/ETAG                   contents, by checksum; ETAG.incomplete while they come
//     snapshots/COMMIT/PATH        a link to a blob
//     refs/REVISION                the commit that it was last
//     trees/COMMIT.json            all files of a commit
//   CACHE/.locks/models--ORG--NAME/ETAG.lock      held by flock() while a blob is fetched
//
// Source: huggingface_hub 2.4.0, file_download.py, _tree_cache.py.
#pragma once

#include <optional>
#include <string>

#include "runtime/common/hub_reference.h"
#include "runtime/common/result.h"
#include "runtime/hub/repo_tree.h"

namespace lockstep::runtime {

// Where a repository lies in a cache. No path is looked at.
struct RepoCache {
  std::string root;  // of the cache
  std::string name;  // models--ORG--NAME

  std::string folder() const { return root + "/" + name; }
  std::string blob(const std::string& etag) const { return folder() + "/blobs/" + etag; }
  std::string partial(const std::string& etag) const { return blob(etag) + ".incomplete"; }
  std::string lock(const std::string& etag) const {
    return root + "/.locks/" + name + "/" + etag + ".lock";
  }
  std::string snapshot(const std::string& commit) const {
    return folder() + "/snapshots/" + commit;
  }
  std::string ref(const std::string& revision) const { return folder() + "/refs/" + revision; }
  std::string tree(const std::string& commit) const {
    return folder() + "/trees/" + commit + ".json";
  }
};

RepoCache repo_cache(const std::string& root, const common::HubReference& reference);

// The commit that a revision was when it was last looked up; nothing if it never was.
std::optional<std::string> read_ref(const RepoCache& cache, const std::string& revision);
common::Result<void> write_ref(const RepoCache& cache, const std::string& revision,
                               const std::string& commit);

// The files of a commit; nothing if they were never listed, or the listing is not sound.
std::optional<RepoTree> read_tree(const RepoCache& cache, const std::string& commit);
common::Result<void> write_tree(const RepoCache& cache, const std::string& commit,
                                const RepoTree& tree);

// What of a commit is in the cache, by name; sizes as on the disk, no checksums.
RepoTree list_snapshot(const RepoCache& cache, const std::string& commit);

// Whether the file's contents are there, in full length where it is known.
bool has_file(const RepoCache& cache, const std::string& commit, const std::string& path,
              const RepoFile& file);

// Makes snapshots/COMMIT/PATH a link to its blob.
common::Result<void> link_file(const RepoCache& cache, const std::string& commit,
                               const std::string& path, const RepoFile& file);

// Creates the folder that `path` is in.
common::Result<void> make_parent(const std::string& path);

}  // namespace lockstep::runtime
