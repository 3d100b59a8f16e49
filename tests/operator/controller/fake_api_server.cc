#include "tests/operator/controller/fake_api_server.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "operator/plan/names.h"

namespace lockstep::control {

using common::ErrorCode;
using kube::ApiError;
using kube::MutexLock;
using kube::ObjectKey;
using nlohmann::json;

namespace {

const std::vector<std::string> kWatched = {"trainingjobs", "pods", "services", "configmaps",
                                           "nodes"};

ApiError not_found(const std::string& what) {
  return refusal(ErrorCode::kNotFound, 404, what + " not found");
}

bool is_child(const json& object) {
  return object.at("metadata").value("labels", json::object()).contains(plan::kJobNameLabel);
}

std::string owner_of(const json& object) {
  for (const json& owner : object.at("metadata").value("ownerReferences", json::array())) {
    return owner.at("uid").get<std::string>();
  }
  return "";
}

bool is_in(const kube::ResourcePath& path, const std::string& ns) {
  return path.ns.empty() || path.ns == ns;
}

// N in "...&resourceVersion=N&...".
int64_t version_in(const std::string& query) {
  const std::string key = "resourceVersion=";
  return std::stoll(query.substr(query.find(key) + key.size()));
}

}  // namespace

ApiError refusal(ErrorCode code, int http_status, const std::string& message) {
  return {{code, message, ""}, http_status, "", std::nullopt};
}

FakeApiServer::Answer FakeApiServer::get(const kube::ResourcePath& path) {
  const MutexLock lock(mutex_);
  if (has_crashed_) throw OperatorCrash();
  ++num_calls_;
  const auto& all = objects_[path.type.plural];
  const auto found = all.find({path.ns, path.name});
  if (found == all.end()) return not_found(path.name);
  return found->second;
}

FakeApiServer::Answer FakeApiServer::list(const kube::ResourcePath& path,
                                          const kube::ListOptions& options,
                                          std::stop_token /*stop*/) {
  const MutexLock lock(mutex_);
  if (forbidden_.contains(path.ns)) return refusal(ErrorCode::kPermissionDenied, 403, "forbidden");
  json items = json::array();
  for (const auto& [key, object] : objects_[path.type.plural]) {
    const bool is_selected = options.label_selector.empty() || is_child(object);
    if (is_selected && is_in(path, key.ns)) items.push_back(object);
  }
  return json{{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", items}};
}

FakeApiServer::Answer FakeApiServer::write(const std::string& what,
                                           const std::function<Answer()>& commit) {
  std::function<void(const std::string&)> on_commit;
  bool dies = false;
  Answer answer = json();
  {
    const MutexLock lock(mutex_);
    if (has_crashed_) throw OperatorCrash();
    ++num_calls_;
    dies = ++num_writes_ == crash_.call;
    if (dies) has_crashed_ = true;
    if (dies && !crash_.after_commit) throw OperatorCrash();
    if (on_write_) {
      if (std::optional<ApiError> refused = on_write_(what)) return *std::move(refused);
    }
    answer = commit();
    if (std::holds_alternative<json>(answer)) {
      writes_.push_back(what);
      on_commit = on_commit_;
    }
  }
  if (on_commit) on_commit(what);
  if (dies) throw OperatorCrash();
  return answer;
}

FakeApiServer::Answer FakeApiServer::create(const kube::ResourcePath& path, const json& body,
                                            kube::Warnings& warnings) {
  const std::string& plural = path.type.plural;
  const json& metadata = body.at("metadata");
  const std::string name = plural == "events" ? body.at("reason").get<std::string>()
                                              : metadata.at("name").get<std::string>();
  return write("create " + plural + "/" + name, [&] {
    for (const std::string& text : warnings_[plural]) warnings.push_back(text);
    return insert(plural, body);
  });
}

FakeApiServer::Answer FakeApiServer::replace(const kube::ResourcePath& path, const json& body) {
  const bool is_whole = path.subresource.empty();
  return write((is_whole ? "replace " : "status ") + path.type.plural + "/" + path.name,
               [&] { return is_whole ? replace_object(path, body) : replace_status(path, body); });
}

FakeApiServer::Answer FakeApiServer::patch(const kube::ResourcePath& path, kube::PatchType /*type*/,
                                           const json& body) {
  return write("patch " + path.type.plural + "/" + path.name, [&]() -> Answer {
    const auto found = objects_[path.type.plural].find({path.ns, path.name});
    if (found == objects_[path.type.plural].end()) return not_found(path.name);
    json object = found->second;
    object.merge_patch(body);
    return store("MODIFIED", path.type.plural, std::move(object));
  });
}

FakeApiServer::Answer FakeApiServer::remove(const kube::ResourcePath& path,
                                            const kube::DeleteOptions& options) {
  return write("delete " + path.type.plural + "/" + path.name,
               [&] { return delete_locked(path, options); });
}

FakeApiServer::Answer FakeApiServer::insert(const std::string& plural, json object) {
  json& metadata = object["metadata"];
  const int id = next_id_++;
  if (!metadata.contains("name")) {
    metadata["name"] = metadata.at("generateName").get<std::string>() + std::to_string(id);
  }
  const ObjectKey key = kube::key_of(object);
  if (objects_[plural].contains(key)) {
    return refusal(ErrorCode::kAlreadyExists, 409, key.name + " already exists");
  }
  metadata["uid"] = "uid-" + std::to_string(id);
  return store("ADDED", plural, std::move(object));
}

FakeApiServer::Answer FakeApiServer::delete_locked(const kube::ResourcePath& path,
                                                   const kube::DeleteOptions& options) {
  const std::string& plural = path.type.plural;
  const ObjectKey key = {path.ns, path.name};
  const auto found = objects_[plural].find(key);
  if (found == objects_[plural].end()) return not_found(path.name);
  json object = found->second;
  if (!options.uid.empty() && object["metadata"]["uid"] != options.uid) {
    return refusal(ErrorCode::kConflict, 409, "the UID in the precondition does not match");
  }
  if (!options.resource_version.empty() &&
      object["metadata"]["resourceVersion"] != options.resource_version) {
    return refusal(ErrorCode::kConflict, 409, "the version in the precondition does not match");
  }
  // Nobody has to end what never began, or has ended; see tests/support/object_table.h.
  const bool has_node = object.value("spec", json::object()).contains("nodeName");
  const std::string phase = object.value("status", json::object()).value("phase", "");
  const bool has_ended = phase == "Succeeded" || phase == "Failed";
  if (!has_node || has_ended || options.grace_period_seconds.value_or(1) == 0) {
    drop(plural, key);
    return object;
  }
  if (object["metadata"].contains("deletionTimestamp")) return object;
  object["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z";
  return store("MODIFIED", plural, std::move(object));
}

FakeApiServer::Answer FakeApiServer::replace_object(const kube::ResourcePath& path,
                                                    const json& body) {
  const std::string& plural = path.type.plural;
  const auto found = objects_[plural].find({path.ns, path.name});
  if (found == objects_[plural].end()) return not_found(path.name);
  const std::string theirs = kube::version_of(body);
  if (!theirs.empty() && kube::version_of(found->second) != theirs) {
    return refusal(ErrorCode::kConflict, 409, "the object has been modified");
  }
  json object = body;
  object["metadata"]["uid"] = found->second["metadata"]["uid"];
  return store("MODIFIED", plural, std::move(object));
}

FakeApiServer::Answer FakeApiServer::replace_status(const kube::ResourcePath& path,
                                                    const json& body) {
  const std::string& plural = path.type.plural;
  const auto found = objects_[plural].find({path.ns, path.name});
  if (found == objects_[plural].end()) return not_found(path.name);
  const json& now = found->second["metadata"];
  const json& theirs = body.at("metadata");
  if (now["uid"] != theirs["uid"] || now["resourceVersion"] != theirs["resourceVersion"]) {
    return refusal(ErrorCode::kConflict, 409, "the object has been modified");
  }
  if (found->second.value("status", json()) == body.at("status")) return found->second;
  json object = found->second;
  object["status"] = body.at("status");
  return store("MODIFIED", plural, std::move(object));
}

json& FakeApiServer::store(const std::string& type, const std::string& plural, json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  tell(type, plural, object);
  json& place = objects_[plural][kube::key_of(object)];
  place = std::move(object);
  return place;
}

void FakeApiServer::drop(const std::string& plural, const ObjectKey& key) {
  const auto found = objects_[plural].find(key);
  if (found == objects_[plural].end()) return;
  json object = std::move(found->second);
  objects_[plural].erase(found);
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  tell("DELETED", plural, object);
}

void FakeApiServer::tell(const std::string& type, const std::string& plural, const json& object) {
  const json event = {{"type", type}, {"object", object}};
  history_.push_back({plural, kube::key_of(object).ns, version_, is_child(object), event.dump()});
  changed_.notify_all();
}

std::optional<ApiError> FakeApiServer::stream(
    const kube::ResourcePath& path, const std::string& query, std::stop_token stop,
    const std::function<bool(std::string_view)>& on_line) {
  const bool children_only = query.find("labelSelector") != std::string::npos;
  if (query.find("sendInitialEvents") != std::string::npos) {
    return tell_all(path, children_only, on_line);
  }
  const int64_t since = version_in(query);
  mutex_.lock();
  const int id = next_id_++;
  streams_[id] = {path.type.plural, 0};
  changed_.notify_all();
  bool goes_on = true;
  while (goes_on && !stop.stop_requested()) {
    Stream& mine = streams_[id];
    const bool has_news = mine.position < history_.size() && !held_.contains(mine.plural);
    if (!has_news) {
      bool first = true;
      changed_.wait(mutex_, stop, [&first] { return !std::exchange(first, false); });
      continue;
    }
    const Event event = history_[mine.position];
    if (event.plural == mine.plural && is_in(path, event.ns) && event.version > since &&
        (event.is_child || !children_only)) {
      mutex_.unlock();
      goes_on = on_line(event.line);
      mutex_.lock();
    }
    ++streams_[id].position;
    changed_.notify_all();
  }
  streams_.erase(id);
  mutex_.unlock();
  return std::nullopt;
}

// Initial events and the bookmark that ends them.
std::optional<ApiError> FakeApiServer::tell_all(
    const kube::ResourcePath& path, bool children_only,
    const std::function<bool(std::string_view)>& on_line) {
  std::vector<std::string> lines;
  {
    const MutexLock lock(mutex_);
    if (forbidden_.contains(path.ns))
      return refusal(ErrorCode::kPermissionDenied, 403, "forbidden");
    for (const auto& [key, object] : objects_[path.type.plural]) {
      if (!is_in(path, key.ns) || (children_only && !is_child(object))) continue;
      lines.push_back(json{{"type", "ADDED"}, {"object", object}}.dump());
    }
    const json end = {{"resourceVersion", std::to_string(version_)},
                      {"annotations", {{"k8s.io/initial-events-end", "true"}}}};
    lines.push_back(json{{"type", "BOOKMARK"}, {"object", {{"metadata", end}}}}.dump());
  }
  for (const std::string& line : lines) {
    if (!on_line(line)) break;
  }
  return std::nullopt;
}

json FakeApiServer::add(const std::string& plural, json object) {
  const MutexLock lock(mutex_);
  return std::get<json>(insert(plural, std::move(object)));
}

void FakeApiServer::edit(const std::string& plural, const ObjectKey& key,
                         const std::function<void(json&)>& change) {
  const MutexLock lock(mutex_);
  json object = objects_[plural].at(key);
  change(object);
  if (object != objects_[plural].at(key)) store("MODIFIED", plural, std::move(object));
}

void FakeApiServer::erase(const std::string& plural, const ObjectKey& key) {
  const MutexLock lock(mutex_);
  drop(plural, key);
}

void FakeApiServer::collect_garbage() {
  const MutexLock lock(mutex_);
  std::set<std::string> owners;
  for (const auto& [key, job] : objects_["trainingjobs"]) owners.insert(job["metadata"]["uid"]);
  for (const std::string& plural : kWatched) {
    std::vector<ObjectKey> orphans;
    for (const auto& [key, object] : objects_[plural]) {
      const std::string owner = owner_of(object);
      if (!owner.empty() && !owners.contains(owner)) orphans.push_back(key);
    }
    for (const ObjectKey& key : orphans) drop(plural, key);
  }
}

void FakeApiServer::crash_at(CrashPoint point) {
  const MutexLock lock(mutex_);
  crash_ = point;
}

void FakeApiServer::revive() {
  const MutexLock lock(mutex_);
  crash_ = {};
  has_crashed_ = false;
}

void FakeApiServer::warn(const std::string& plural, kube::Warnings texts) {
  const MutexLock lock(mutex_);
  warnings_[plural] = std::move(texts);
}

bool FakeApiServer::has_crashed() const {
  const MutexLock lock(mutex_);
  return has_crashed_;
}

void FakeApiServer::set_on_write(OnWrite on_write) {
  const MutexLock lock(mutex_);
  on_write_ = std::move(on_write);
}

void FakeApiServer::set_on_commit(std::function<void(const std::string&)> on_commit) {
  const MutexLock lock(mutex_);
  on_commit_ = std::move(on_commit);
}

void FakeApiServer::hold(const std::string& plural) {
  const MutexLock lock(mutex_);
  held_.insert(plural);
}

void FakeApiServer::release(const std::string& plural) {
  const MutexLock lock(mutex_);
  held_.erase(plural);
  changed_.notify_all();
}

bool FakeApiServer::is_delivered() const {
  return std::all_of(kWatched.begin(), kWatched.end(), [this](const std::string& plural) {
    if (held_.contains(plural)) return true;
    return std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
      return entry.second.plural == plural && entry.second.position == history_.size();
    });
  });
}

void FakeApiServer::await_delivery() {
  const MutexLock lock(mutex_);
  while (!is_delivered()) changed_.wait(mutex_);
}

std::vector<json> FakeApiServer::objects(const std::string& plural) const {
  const MutexLock lock(mutex_);
  std::vector<json> all;
  if (!objects_.contains(plural)) return all;
  for (const auto& [key, object] : objects_.at(plural)) all.push_back(object);
  return all;
}

std::optional<json> FakeApiServer::object(const std::string& plural, const ObjectKey& key) const {
  const MutexLock lock(mutex_);
  const auto type = objects_.find(plural);
  if (type == objects_.end() || !type->second.contains(key)) return std::nullopt;
  return type->second.at(key);
}

std::vector<std::string> FakeApiServer::writes() const {
  const MutexLock lock(mutex_);
  return writes_;
}

}  // namespace lockstep::control
