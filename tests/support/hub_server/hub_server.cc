#include "tests/support/hub_server/hub_server.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::support {
namespace {

using nlohmann::json;

constexpr std::size_t kFilesPerPage = 2;
const std::string kCommitKey = "commit=";

std::string digest(const std::string& text, const EVP_MD* kind) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), bytes.data(), &size, kind, nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex.push_back("0123456789abcdef"[bytes.at(i) >> 4U]);
    hex.push_back("0123456789abcdef"[bytes.at(i) & 15U]);
  }
  return hex;
}

std::string decoded(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain.push_back(static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16)));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

bool wait_readable(int fd, const std::stop_token& stop) {
  constexpr int kLookEveryMs = 5;
  while (!stop.stop_requested()) {
    pollfd entry{fd, POLLIN, 0};
    if (poll(&entry, 1, kLookEveryMs) > 0) return true;
  }
  return false;
}

std::optional<HubRequest> read_request(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t size = recv(fd, buffer.data(), buffer.size(), 0);
    if (size <= 0) return std::nullopt;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  std::istringstream lines(text);
  HubRequest request;
  lines >> request.method >> request.target;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line != "\r") {
    const std::size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
  }
  return request;
}

std::string etag_of(const std::string& path, const std::string& contents) {
  return HubServer::is_large(path) ? HubServer::sha256_of(contents)
                                   : HubServer::git_sha1_of(contents);
}

void send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string error_headers(const std::string& code, const std::string& message) {
  return "X-Error-Code: " + code + "\r\nX-Error-Message: " + message + "\r\n";
}

}  // namespace

std::string HubServer::sha256_of(const std::string& contents) {
  return digest(contents, EVP_sha256());
}

std::string HubServer::git_sha1_of(const std::string& contents) {
  std::string object = std::string("blob ").append(std::to_string(contents.size()));
  object.push_back('\0');
  return digest(object + contents, EVP_sha1());
}

bool HubServer::is_large(const std::string& path) {
  return path.ends_with(".safetensors") || path.ends_with(".bin") || path.ends_with(".tokens");
}

HubServer::HubServer() {
  threads_.emplace_back([this](const std::stop_token& stop) { serve(hub_, false, stop); });
  threads_.emplace_back([this](const std::stop_token& stop) { serve(content_, true, stop); });
}

HubServer::~HubServer() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

std::string HubServer::put(const HubRepo& repo) {
  std::string named;
  for (const auto& [path, contents] : repo.files) named += path + " " + sha256_of(contents) + "\n";
  const std::string commit = digest(named, EVP_sha1());
  const std::lock_guard lock(mutex_);
  StoredRepo& stored = repos_[repo.api + "/" + repo.name];
  stored.newest = repo;
  stored.head = commit;
  stored.commits[commit] = repo.files;
  for (const auto& [path, contents] : repo.files) blobs_[etag_of(path, contents)] = contents;
  return commit;
}

void HubServer::add_fault(HubFault fault) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(std::move(fault));
}

std::vector<HubRequest> HubServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int HubServer::count(const std::string& part) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(
      std::count_if(requests_.begin(), requests_.end(), [&part](const HubRequest& request) {
        return request.target.find(part) != std::string::npos;
      }));
}

void HubServer::serve(const LoopbackListener& listener, bool is_content_host,
                      const std::stop_token& stop) {
  std::vector<std::jthread> connections;
  while (wait_readable(listener.fd(), stop)) {
    const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    connections.emplace_back([this, fd, is_content_host] { serve_one(fd, is_content_host); });
  }
}

void HubServer::serve_one(int fd, bool is_content_host) {
  timeval limit{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::optional<HubRequest> request = read_request(fd);
  if (request) {
    request->to_content_host = is_content_host;
    const Answer told = answer(*request);
    std::string head = "HTTP/1.1 ";
    head.append(std::to_string(told.status)).append(" X\r\n").append(told.headers);
    head.append("Connection: close\r\nContent-Length: ");
    send_all(fd, head.append(std::to_string(told.body.size())).append("\r\n\r\n"));
    const std::string_view body = told.body;
    const bool is_cut = told.cut_after >= 0;
    if (request->method != "HEAD") {
      send_all(fd, is_cut ? body.substr(0, static_cast<std::size_t>(told.cut_after)) : body);
    }
  }
  close(fd);
}

HubFault HubServer::take_fault(const std::string& target) {
  const auto found = std::find_if(faults_.begin(), faults_.end(), [&target](const HubFault& fault) {
    return target.find(fault.target) != std::string::npos;
  });
  if (found == faults_.end()) return {};
  HubFault fault = *found;
  faults_.erase(found);
  return fault;
}

// The repository that `target` ("ORG/NAME/rest") begins with; the rest stays in `target`.
const HubServer::StoredRepo* HubServer::find(const std::string& api, std::string& target) const {
  const std::size_t slash = target.find('/', target.find('/') + 1);
  const auto found = repos_.find(api + "/" + target.substr(0, slash));
  target = slash == std::string::npos ? "" : target.substr(slash + 1);
  return found == repos_.end() ? nullptr : &found->second;
}

HubServer::Answer HubServer::answer(const HubRequest& request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
  const HubFault fault = request.method == "GET" ? take_fault(request.target) : HubFault();
  if (fault.status != 0) return {.status = fault.status, .headers = fault.headers, .body = "{}"};
  std::string target = request.target.substr(1, request.target.find('?') - 1);
  const auto under = [&target](const std::string& folder) {
    if (!target.starts_with(folder)) return false;
    target.erase(0, folder.size());
    return true;
  };
  if (under("contents/")) {
    if (request.to_content_host && request.headers.contains("authorization")) {
      return {.status = 400, .headers = "", .body = "two signatures"};
    }
    return contents(request, blobs_.at(target), fault);
  }
  const bool is_api = under("api/");
  const std::string api_name =
      under("datasets/") || (is_api && !under("models/")) ? "datasets" : "models";
  const StoredRepo* const repo = find(api_name, target);
  if (repo == nullptr) {
    return {.status = 401,
            .headers = error_headers("RepoNotFound", "Repository not found"),
            .body = ""};
  }
  const auto token = request.headers.find("authorization");
  const std::string given = token == request.headers.end() ? "" : token->second;
  if (!repo->newest.token.empty() && given != "Bearer " + repo->newest.token) {
    if (given.empty()) {
      return {.status = 401,
              .headers = error_headers("RepoNotFound", "Repository not found"),
              .body = ""};
    }
    return {.status = 401,
            .headers = "X-Error-Message: Invalid credentials in Authorization header\r\n",
            .body = ""};
  }
  if (is_api) return api(request, *repo, target);
  const std::size_t slash = target.find('/', std::string("resolve/").size());
  if (!target.starts_with("resolve/") || slash == std::string::npos) return {.status = 404};
  if (repo->newest.is_gated) {
    return {.status = given.empty() ? 401 : 403,
            .headers = error_headers("GatedRepo", "Access to model is restricted"),
            .body = ""};
  }
  return resolve(*repo, decoded(target.substr(8, slash - 8)), decoded(target.substr(slash + 1)));
}

HubServer::Answer HubServer::api(const HubRequest& request, const StoredRepo& repo,
                                 const std::string& rest) const {
  const std::size_t slash = rest.find('/');
  const std::string revision = decoded(rest.substr(slash + 1));
  const std::string commit = revision == "main" ? repo.head : revision;
  if (!repo.commits.contains(commit)) {
    return {
        .status = 404, .headers = error_headers("RevisionNotFound", "Invalid rev id"), .body = ""};
  }
  if (rest.starts_with("tree/")) return tree(request, repo, commit);
  const json info = {{"id", repo.newest.name}, {"sha", commit}, {"siblings", json::array()}};
  return {.headers = "Content-Type: application/json\r\n", .body = info.dump()};
}

HubServer::Answer HubServer::tree(const HubRequest& request, const StoredRepo& repo,
                                  const std::string& commit) const {
  const std::string cursor_key = "cursor=";
  const std::size_t at = request.target.find(cursor_key);
  const std::size_t first =
      at == std::string::npos ? 0 : std::stoul(request.target.substr(at + cursor_key.size()));
  json page = json::array();
  std::size_t index = 0;
  for (const auto& [path, text] : repo.commits.at(commit)) {
    if (index++ < first || page.size() == kFilesPerPage) continue;
    json entry = {
        {"type", "file"}, {"path", path}, {"size", text.size()}, {"oid", git_sha1_of(text)}};
    if (is_large(path)) {
      entry["oid"] = git_sha1_of("pointer to " + sha256_of(text));
      entry["lfs"] = {{"oid", sha256_of(text)}, {"size", text.size()}, {"pointerSize", 134}};
    }
    page.push_back(entry);
  }
  std::string headers = "Content-Type: application/json\r\n";
  if (first + kFilesPerPage < index) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    headers += "Link: <" + hub_.url() + path + "?recursive=true&" + cursor_key +
               std::to_string(first + kFilesPerPage) + ">; rel=\"next\"\r\n";
  }
  return {.headers = headers, .body = page.dump()};
}

HubServer::Answer HubServer::resolve(const StoredRepo& repo, const std::string& revision,
                                     const std::string& path) {
  const std::string commit = revision == "main" ? repo.head : revision;
  if (!repo.commits.contains(commit)) {
    return {
        .status = 404, .headers = error_headers("RevisionNotFound", "Invalid rev id"), .body = ""};
  }
  const std::string of_commit = "X-Repo-Commit: " + commit + "\r\n";
  const auto file = repo.commits.at(commit).find(path);
  if (file == repo.commits.at(commit).end()) {
    return {.status = 404,
            .headers = of_commit + error_headers("EntryNotFound", "Entry not found"),
            .body = ""};
  }
  const std::string etag = etag_of(path, file->second);
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string place = "/contents/" + etag + "?" + kCommitKey + commit + "&file=" + name;
  const bool is_elsewhere = is_large(path);
  return {.status = is_elsewhere ? 302 : 307,
          .headers = of_commit + "X-Linked-Etag: \"" + etag + "\"\r\nX-Linked-Size: " +
                     std::to_string(file->second.size()) + "\r\nETag: \"" + etag +
                     "\"\r\nLocation: " + (is_elsewhere ? content_.url() + place : place) + "\r\n",
          .body = "Found. Redirecting"};
}

HubServer::Answer HubServer::contents(const HubRequest& request, const std::string& body,
                                      const HubFault& fault) {
  // huggingface_hub takes what it asks for from the last answer of this host.
  const std::string& target = request.target;
  const std::size_t query = target.find('?');
  const std::string etag = target.substr(target.rfind('/') + 1, query - target.rfind('/') - 1);
  const std::size_t commit = target.find(kCommitKey) + kCommitKey.size();
  Answer whole{.headers = "Accept-Ranges: bytes\r\nETag: \"" + etag + "\"\r\nX-Repo-Commit: " +
                          target.substr(commit, target.find('&') - commit) + "\r\n",
               .body = body,
               .cut_after = fault.cut_after};
  if (fault.changes_contents && !body.empty()) whole.body.back() = static_cast<char>(~body.back());
  const auto range = request.headers.find("range");
  if (range == request.headers.end() || fault.ignores_range) return whole;
  const std::size_t begin = std::stoul(range->second.substr(std::string("bytes=").size()));
  if (begin >= body.size()) return {.status = 416};
  whole.status = 206;
  whole.headers.append("Content-Range: bytes ").append(std::to_string(begin)).append("-");
  whole.headers.append(std::to_string(body.size() - 1)).append("/");
  whole.headers.append(std::to_string(body.size())).append("\r\n");
  whole.body.erase(0, begin);
  return whole;
}

}  // namespace lockstep::support
