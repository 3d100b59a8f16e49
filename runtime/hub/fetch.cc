#include "runtime/hub/fetch.h"

#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::HubReference;
using common::Result;

std::string api_path(const HubReference& reference) {
  const bool is_data = reference.kind == common::HubKind::kDataset;
  return (is_data ? "/api/datasets/" : "/api/models/") + reference.repo;
}

Error not_a_hub(const HubSession& session, const std::string& what) {
  return {ErrorCode::kUnavailable, session.settings.endpoint + " " + what,
          "does HF_ENDPOINT name a Hugging Face hub?"};
}

// The path below the endpoint of the next page; nothing after the last.
// "<https://HOST/api/...?cursor=...>; rel="next""
std::optional<std::string> next_page(const std::string& endpoint, const std::string& link) {
  const std::size_t begin = link.find('<');
  const std::size_t end = link.find('>');
  if (begin == std::string::npos || end == std::string::npos || end < begin ||
      link.find("rel=\"next\"") == std::string::npos) {
    return std::nullopt;
  }
  const std::string url = link.substr(begin + 1, end - begin - 1);
  if (url.starts_with('/')) return url;
  if (!url.starts_with(endpoint + "/")) return std::nullopt;
  return url.substr(endpoint.size());
}

Result<RepoTree> list_commit(const HubSession& session, const HubReference& reference,
                             const std::string& commit) {
  RepoTree tree;
  std::optional<std::string> page = api_path(reference) + "/tree/" + commit + "?recursive=true";
  while (page) {
    ASSIGN_OR_RETURN(const HttpReply reply,
                     get_from_hub(session, {.reference = reference, .file = {}}, *page));
    RETURN_IF_ERROR(add_tree_page(reply.body, tree));
    const std::string link = reply.header("link");
    page = next_page(session.settings.endpoint, link);
    if (!page && link.find("rel=\"next\"") != std::string::npos) {
      return not_a_hub(session, std::string("lists ")
                                    .append(repository_name(reference))
                                    .append(" in pages of another server"));
    }
  }
  return tree;
}

struct Listing {
  CommitFiles files;
  bool is_whole = true;
};

Result<Listing> list_files(const HubSession& session, const HubReference& reference,
                           const std::string& commit) {
  const RepoCache cache = repo_cache(session.settings.cache, reference);
  Listing listing{.files = {.reference = reference, .commit = commit, .tree = {}}};
  if (std::optional<RepoTree> known = read_tree(cache, commit)) {
    listing.files.tree = *std::move(known);
    return listing;
  }
  if (session.settings.is_offline) {
    listing.files.tree = list_snapshot(cache, commit);
    listing.is_whole = false;
    if (!listing.files.tree.empty()) return listing;
    return Error{ErrorCode::kNotFound,
                 std::string("HF_HUB_OFFLINE is set, and nothing of ")
                     .append(repository_name(reference))
                     .append(" is in the cache: there is no ")
                     .append(cache.snapshot(commit)),
                 "fetch it once with a network, e.g. by `lockstep fetch`"};
  }
  ASSIGN_OR_RETURN(listing.files.tree, list_commit(session, reference, commit));
  // A cache that may only be read serves as well: the listing is then made anew each time.
  static_cast<void>(write_tree(cache, commit, listing.files.tree));
  return listing;
}

// Where what the reference names lies on the disk.
std::string place_of(const HubSession& session, const CommitFiles& files) {
  const HubReference& reference = files.reference;
  const std::string snapshot = repo_cache(session.settings.cache, reference).snapshot(files.commit);
  return reference.path.empty() ? snapshot : snapshot + "/" + reference.path;
}

Error of_repository(const HubReference& reference, const Error& error) {
  return {error.code, repository_name(reference) + ": " + error.message, error.hint};
}

}  // namespace

Result<std::string> resolve_revision(const HubSession& session, const HubReference& reference) {
  if (common::is_commit(reference.revision)) return reference.revision;
  const RepoCache cache = repo_cache(session.settings.cache, reference);
  if (session.settings.is_offline) {
    if (const std::optional<std::string> known = read_ref(cache, reference.revision)) return *known;
    return Error{ErrorCode::kNotFound,
                 "HF_HUB_OFFLINE is set, and the cache does not know which commit " +
                     repository_name(reference) + " is: there is no " +
                     cache.ref(reference.revision),
                 "fetch it once with a network, or name a commit that is in the cache"};
  }
  ASSIGN_OR_RETURN(
      const HttpReply reply,
      get_from_hub(session, {.reference = reference, .file = {}},
                   api_path(reference) + "/revision/" + encode_part(reference.revision)));
  const nlohmann::json info = nlohmann::json::parse(reply.body, nullptr, false);
  const bool has_commit = info.is_object() && info.contains("sha") && info.at("sha").is_string();
  if (!has_commit || !common::is_commit(info.at("sha").get<std::string>())) {
    return not_a_hub(
        session, std::string("does not tell the commit of ").append(repository_name(reference)));
  }
  auto commit = info.at("sha").get<std::string>();
  // As with listings: a cache that may only be read serves as well.
  static_cast<void>(write_ref(cache, reference.revision, commit));
  return commit;
}

Result<Fetched> fetch_model(const HubSession& session, const HubReference& reference,
                            const std::string& commit, bool weights, FetchProgress& progress) {
  ASSIGN_OR_RETURN(const Listing listing, list_files(session, reference, commit));
  const Result<std::vector<std::string>> chosen =
      choose_model_files(listing.files.tree, reference.path, weights);
  if (!chosen) return of_repository(reference, chosen.error());
  RETURN_IF_ERROR(fetch_files(session, listing.files, *chosen, progress));
  const std::string snapshot = repo_cache(session.settings.cache, reference).snapshot(commit);
  Fetched fetched{.place = place_of(session, listing.files),
                  .num_files = static_cast<int64_t>(chosen->size()),
                  .is_known_whole = listing.is_whole};
  const std::string index = find_index(*chosen);
  if (index.empty()) return fetched;
  ASSIGN_OR_RETURN(const std::string text, common::read_text_file(snapshot + "/" + index));
  const Result<std::vector<std::string>> shards =
      choose_shards(listing.files.tree, reference.path, text);
  if (!shards) return of_repository(reference, shards.error());
  RETURN_IF_ERROR(fetch_files(session, listing.files, *shards, progress));
  fetched.num_files += static_cast<int64_t>(shards->size());
  return fetched;
}

Result<Fetched> fetch_tokenizer(const HubSession& session, const HubReference& reference,
                                const std::string& commit, FetchProgress& progress) {
  ASSIGN_OR_RETURN(const Listing listing, list_files(session, reference, commit));
  const Result<std::vector<std::string>> chosen =
      choose_tokenizer_files(listing.files.tree, reference.path);
  if (!chosen) return of_repository(reference, chosen.error());
  RETURN_IF_ERROR(fetch_files(session, listing.files, *chosen, progress));
  return Fetched{.place = place_of(session, listing.files),
                 .num_files = static_cast<int64_t>(chosen->size()),
                 .is_known_whole = listing.is_whole};
}

Result<Fetched> fetch_data(const HubSession& session, const HubReference& reference,
                           const std::string& commit, DataPart part,
                           common::DataConfig::Format format, FetchProgress& progress) {
  ASSIGN_OR_RETURN(const Listing listing, list_files(session, reference, commit));
  const Result<DataChoice> choice =
      choose_data_files(listing.files.tree, reference.path, part, format);
  if (!choice) return of_repository(reference, choice.error());
  RETURN_IF_ERROR(fetch_files(session, listing.files, choice->files, progress));
  return Fetched{.place = repo_cache(session.settings.cache, reference).snapshot(commit) + "/" +
                          choice->pattern,
                 .num_files = static_cast<int64_t>(choice->files.size()),
                 .is_known_whole = listing.is_whole};
}

}  // namespace lockstep::runtime
