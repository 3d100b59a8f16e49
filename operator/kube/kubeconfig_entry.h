// A cluster, user or context of a kubeconfig, and reading its fields with errors that say where.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "operator/kube/client_config.h"
#include "runtime/common/result.h"

namespace lockstep::kube {

struct KubeconfigEntry {
  std::string file;
  std::string where;  // "users[admin].user"
  YAML::Node node;
};

// kInvalidArgument: file, place and field, then `message`. An empty field means the entry itself.
common::Error bad(const KubeconfigEntry& entry, std::string_view field, const std::string& message,
                  std::string_view hint = "");

// False if absent, null or an empty text.
bool is_set(const YAML::Node& node);

// The field, or nothing (empty, false) if it is not set.
common::Result<std::string> text_of(const KubeconfigEntry& entry, const char* field);
common::Result<bool> flag_of(const KubeconfigEntry& entry, const char* field);

// The content of `name`-data, or else of the file that `name` names, which `file` then tells; empty
// if neither is set.
common::Result<std::string> data_or_file(const KubeconfigEntry& entry, const std::string& name,
                                         const FileReader& reader, std::string& file);

// `path` as seen from the folder of `file`.
std::string resolve_path(const std::string& path, const std::string& file);

}  // namespace lockstep::kube
