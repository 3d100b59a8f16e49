#include "runtime/hub/repo_tree.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr int64_t kTreeVersion = 1;

Error no_tree(const std::string& what) {
  return Error{ErrorCode::kDataLoss,
               "the listing of the repository is not as the hub writes it: " + what,
               "does HF_ENDPOINT name a Hugging Face hub?"};
}

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Whether the parts of `path` are names, none of which leads elsewhere.
bool stays_inside(std::string_view path) {
  if (std::find(path.begin(), path.end(), '\0') != path.end()) return false;
  while (true) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == path.size()) return true;
    path.remove_prefix(slash + 1);
  }
}

Result<void> add_repo_file(const std::string& path, RepoFile file, RepoTree& tree) {
  if (!stays_inside(path)) return no_tree("'" + path + "' is no path inside it");
  const std::size_t digits = file.lfs_sha256.empty() ? 40 : 64;
  if (!is_hex(file.etag(), digits) || file.num_bytes < 0) {
    return no_tree(path + " has no checksum");
  }
  tree[path] = std::move(file);
  return {};
}

Result<void> add_entry(const json& entry, RepoTree& tree) {
  if (entry.at("type").get<std::string>() != "file") return {};
  RepoFile file{.num_bytes = entry.at("size").get<int64_t>(),
                .blob_id = entry.at("oid").get<std::string>()};
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.lfs_sha256 = lfs->at("oid").get<std::string>();
    file.num_bytes = lfs->at("size").get<int64_t>();
  }
  if (const auto xet = entry.find("xetHash"); xet != entry.end() && xet->is_string()) {
    file.xet_hash = xet->get<std::string>();
  }
  return add_repo_file(entry.at("path").get<std::string>(), std::move(file), tree);
}

}  // namespace

Result<void> add_tree_page(std::string_view text, RepoTree& tree) {
  const json page = json::parse(text, nullptr, false);
  if (!page.is_array()) return no_tree("it is not a JSON list");
  try {
    for (const json& entry : page) RETURN_IF_ERROR(add_entry(entry, tree));
  } catch (const json::exception& failure) {
    return no_tree(failure.what());
  }
  return {};
}

std::string encode_tree(const RepoTree& tree) {
  json files = json::object();
  for (const auto& [path, file] : tree) {
    json& entry = files[path] = {{"size", file.num_bytes}, {"blob_id", file.blob_id}};
    if (!file.lfs_sha256.empty()) {
      entry["lfs_sha256"] = file.lfs_sha256;
      entry["lfs_size"] = file.num_bytes;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
  }
  return json({{"format_version", kTreeVersion}, {"files", files}})
      .dump(1, ' ', false, json::error_handler_t::replace);
}

Result<RepoTree> decode_tree(std::string_view text) {
  const json tree = json::parse(text, nullptr, false);
  RepoTree files;
  try {
    if (tree.at("format_version").get<int64_t>() != kTreeVersion) return no_tree("another version");
    for (const auto& [path, entry] : tree.at("files").items()) {
      RepoFile file{.num_bytes = entry.at("size").get<int64_t>(),
                    .blob_id = entry.at("blob_id").get<std::string>(),
                    .lfs_sha256 = entry.value("lfs_sha256", ""),
                    .xet_hash = entry.value("xet_hash", "")};
      if (!file.lfs_sha256.empty()) file.num_bytes = entry.at("lfs_size").get<int64_t>();
      RETURN_IF_ERROR(add_repo_file(path, std::move(file), files));
    }
  } catch (const json::exception& failure) {
    return no_tree(failure.what());
  }
  return files;
}

}  // namespace lockstep::runtime
