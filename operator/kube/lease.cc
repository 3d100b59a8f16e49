#include "operator/kube/lease.h"

#include <array>
#include <cstdio>

#include "operator/kube/object_key.h"

namespace lockstep::kube {

using nlohmann::json;

namespace {

std::string text_of(const json& spec, const char* name) {
  const auto found = spec.find(name);
  return found != spec.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t number_of(const json& spec, const char* name) {
  const auto found = spec.find(name);
  return found != spec.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

json object_of(const json& parent, const char* name) {
  const auto found = parent.find(name);
  return found != parent.end() && found->is_object() ? *found : json::object();
}

}  // namespace

ResourcePath lease_path(const std::string& ns, const std::string& name) {
  return {{"coordination.k8s.io", "v1", "leases"}, ns, name, ""};
}

Lease decode_lease(const json& object) {
  const json spec = object_of(object, "spec");
  return {.record = {.holder = text_of(spec, "holderIdentity"),
                     .duration = std::chrono::seconds(number_of(spec, "leaseDurationSeconds")),
                     .acquire_time = text_of(spec, "acquireTime"),
                     .renew_time = text_of(spec, "renewTime"),
                     .transitions = number_of(spec, "leaseTransitions")},
          .version = version_of(object),
          .uid = text_of(object_of(object, "metadata"), "uid")};
}

json encode_lease(const ResourcePath& path, const LeaseRecord& record, const std::string& version) {
  json object = {{"apiVersion", "coordination.k8s.io/v1"},
                 {"kind", "Lease"},
                 {"metadata", {{"name", path.name}, {"namespace", path.ns}}},
                 {"spec",
                  {{"holderIdentity", record.holder},
                   {"leaseDurationSeconds", record.duration.count()},
                   {"acquireTime", record.acquire_time},
                   {"renewTime", record.renew_time},
                   {"leaseTransitions", record.transitions}}}};
  if (!version.empty()) object["metadata"]["resourceVersion"] = version;
  return object;
}

std::string format_micro_time(std::chrono::system_clock::time_point time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(
      std::chrono::duration_cast<std::chrono::microseconds>(time - day));
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()),
                static_cast<int>(clock.subseconds().count()));
  return text.data();
}

}  // namespace lockstep::kube
