#include "operator/controller/events.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "runtime/common/fnv.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

const kube::ResourceType kEvents{"", "v1", "events"};

// The same text has the same name in every build of the operator.
std::string digest(std::string_view text) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(common::fnv1a(text)));
  return digits;
}

std::string name_of(const EventSubject& subject, const plan::Event& event) {
  const std::string said = subject.uid + "\n" + event.reason + "\n" + event.message;
  return subject.name + "." + digest(said);
}

json render(const EventSubject& subject, const plan::Event& event, const std::string& name,
            const std::string& time) {
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"name", name}, {"namespace", subject.ns}}},
          {"involvedObject",
           {{"apiVersion", subject.api_version},
            {"kind", subject.kind},
            {"name", subject.name},
            {"namespace", subject.ns},
            {"uid", subject.uid}}},
          {"type", event.warning ? "Warning" : "Normal"},
          {"reason", event.reason},
          {"message", event.message},
          {"source", {{"component", "lockstep-operator"}}},
          {"firstTimestamp", time},
          {"lastTimestamp", time},
          {"count", 1}};
}

common::Result<void> count_up(kube::Client& client, const kube::ResourcePath& path,
                              const std::string& time) {
  const auto found = client.get(path);
  if (const auto* error = std::get_if<kube::ApiError>(&found)) return error->error;
  const int64_t count = std::get<json>(found).value("count", int64_t{1});
  const auto patched =
      client.patch(path, kube::PatchType::kMerge, {{"count", count + 1}, {"lastTimestamp", time}});
  if (const auto* error = std::get_if<kube::ApiError>(&patched)) return error->error;
  return {};
}

}  // namespace

common::Result<void> emit_event(kube::Client& client, const EventSubject& subject,
                                const plan::Event& event, api::Time now) {
  const std::string time = api::format_time(now);
  const std::string name = name_of(subject, event);
  const auto answer =
      client.create({kEvents, subject.ns, "", ""}, render(subject, event, name, time));
  const auto* error = std::get_if<kube::ApiError>(&answer);
  if (error == nullptr) return {};
  if (error->error.code != common::ErrorCode::kAlreadyExists) return error->error;
  return count_up(client, {kEvents, subject.ns, name, ""}, time);
}

common::Result<void> emit_event(kube::Client& client, const api::TrainingJob& job,
                                const plan::Event& event, api::Time now) {
  return emit_event(client,
                    EventSubject{.api_version = api::kApiVersion,
                                 .kind = api::kKind,
                                 .name = job.meta.name,
                                 .ns = job.meta.ns,
                                 .uid = job.meta.uid},
                    event, now);
}

}  // namespace lockstep::control
