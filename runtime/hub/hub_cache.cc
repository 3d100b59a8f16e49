#include "runtime/hub/hub_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <unistd.h>

#include "runtime/common/system_error.h"
#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Result;

// A name beside `path` that no other writer of any process has.
std::string draft_of(const std::string& path) {
  static std::atomic<int> count{0};
  return path + "." + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".tmp";
}

// Readers see the old text or the new one.
Result<void> replace_text(const std::string& path, const std::string& text) {
  RETURN_IF_ERROR(make_parent(path));
  const std::string draft = draft_of(path);
  errno = 0;
  std::ofstream file(draft, std::ios::binary);
  file << text;
  file.close();
  if (!file) return common::system_error("write", draft, errno);
  if (std::rename(draft.c_str(), path.c_str()) == 0) return {};
  return common::system_error("write", path, errno);
}

}  // namespace

RepoCache repo_cache(const std::string& root, const common::HubReference& reference) {
  const bool is_model = reference.kind == common::HubKind::kModel;
  RepoCache cache{.root = root, .name = is_model ? "models--" : "datasets--"};
  for (const char c : reference.repo) {
    if (c == '/') {
      cache.name.append("--");
    } else {
      cache.name.push_back(c);
    }
  }
  return cache;
}

Result<void> make_parent(const std::string& path) {
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  fs::create_directories(parent, error);
  if (!error) return {};
  const common::Error failed = common::system_error("create", parent.string(), error.value());
  return common::Error{failed.code, failed.message,
                       "set HF_HOME to a folder that can be written, e.g. of a mounted volume"};
}

std::optional<std::string> read_ref(const RepoCache& cache, const std::string& revision) {
  if (common::is_commit(revision)) return revision;
  const Result<std::string> text = common::read_text_file(cache.ref(revision));
  if (!text) return std::nullopt;
  std::string commit = text->substr(0, text->find_first_of(" \r\n"));
  return common::is_commit(commit) ? std::optional(std::move(commit)) : std::nullopt;
}

Result<void> write_ref(const RepoCache& cache, const std::string& revision,
                       const std::string& commit) {
  if (revision == commit || read_ref(cache, revision) == commit) return {};
  return replace_text(cache.ref(revision), commit);
}

std::optional<RepoTree> read_tree(const RepoCache& cache, const std::string& commit) {
  const Result<std::string> text = common::read_text_file(cache.tree(commit));
  if (!text) return std::nullopt;
  Result<RepoTree> tree = decode_tree(*text);
  return tree ? std::optional(std::move(tree).value()) : std::nullopt;
}

Result<void> write_tree(const RepoCache& cache, const std::string& commit, const RepoTree& tree) {
  return replace_text(cache.tree(commit), encode_tree(tree));
}

RepoTree list_snapshot(const RepoCache& cache, const std::string& commit) {
  RepoTree tree;
  const fs::path root = cache.snapshot(commit);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code unseen;
    if (!entry->is_regular_file(unseen)) continue;
    const std::uintmax_t size = entry->file_size(unseen);
    if (unseen) continue;
    tree[entry->path().lexically_relative(root).string()].num_bytes = static_cast<int64_t>(size);
  }
  return tree;
}

bool has_file(const RepoCache& cache, const std::string& commit, const std::string& path,
              const RepoFile& file) {
  std::error_code unseen;
  const std::uintmax_t size = fs::file_size(cache.snapshot(commit) + "/" + path, unseen);
  return !unseen && static_cast<int64_t>(size) == file.num_bytes;
}

Result<void> link_file(const RepoCache& cache, const std::string& commit, const std::string& path,
                       const RepoFile& file) {
  const std::string link = cache.snapshot(commit) + "/" + path;
  RETURN_IF_ERROR(make_parent(link));
  std::string target = "../../";
  for (std::ptrdiff_t depth = std::count(path.begin(), path.end(), '/'); depth > 0; --depth) {
    target += "../";
  }
  target += "blobs/" + file.etag();
  const std::string draft = draft_of(link);
  if (::symlink(target.c_str(), draft.c_str()) != 0) {
    return common::system_error("link", draft, errno);
  }
  if (std::rename(draft.c_str(), link.c_str()) == 0) return {};
  return common::system_error("link", link, errno);
}

}  // namespace lockstep::runtime
