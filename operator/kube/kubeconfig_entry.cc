#include "operator/kube/kubeconfig_entry.h"

#include <algorithm>
#include <utility>

#include <openssl/evp.h>

namespace lockstep::kube {

using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

Result<std::string> decode_base64(const KubeconfigEntry& entry, const char* field,
                                  std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
  const std::size_t padding = text.size() - std::min(text.size(), text.find_last_not_of('=') + 1);
  std::string out(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0 || text.size() % 4 != 0 || padding > 2) return bad(entry, field, "is not base64");
  out.resize(static_cast<std::size_t>(size) - padding);  // padding decodes to zero bytes
  return out;
}

}  // namespace

Error bad(const KubeconfigEntry& entry, std::string_view field, const std::string& message,
          std::string_view hint) {
  const std::string path = field.empty() ? entry.where : entry.where + "." + std::string(field);
  return {ErrorCode::kInvalidArgument, entry.file + ": " + path + ": " + message,
          std::string(hint)};
}

bool is_set(const YAML::Node& node) {
  return node.IsDefined() && !node.IsNull() && !(node.IsScalar() && node.Scalar().empty());
}

Result<std::string> text_of(const KubeconfigEntry& entry, const char* field) {
  const YAML::Node node = entry.node[field];
  if (!is_set(node)) return std::string();
  if (!node.IsScalar()) return bad(entry, field, "must be a string");
  return node.Scalar();
}

Result<bool> flag_of(const KubeconfigEntry& entry, const char* field) {
  const YAML::Node node = entry.node[field];
  if (!is_set(node)) return false;
  bool value = false;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value)) {
    return bad(entry, field, "must be true or false");
  }
  return value;
}

std::string resolve_path(const std::string& path, const std::string& file) {
  const std::size_t slash = file.rfind('/');
  if (path.empty() || path.front() == '/' || slash == std::string::npos) return path;
  return file.substr(0, slash + 1) + path;
}

Result<std::string> data_or_file(const KubeconfigEntry& entry, const std::string& name,
                                 const FileReader& reader, std::string& file) {
  const std::string data_field = name + "-data";
  std::string text;
  ASSIGN_OR_RETURN(text, text_of(entry, data_field.c_str()));
  if (!text.empty()) return decode_base64(entry, data_field.c_str(), text);
  ASSIGN_OR_RETURN(text, text_of(entry, name.c_str()));
  if (text.empty()) return text;
  file = resolve_path(text, entry.file);
  Result<std::string> content = reader(file);
  if (!content) return bad(entry, name, content.error().message);
  if (content->empty()) return bad(entry, name, "names an empty file");
  return content;
}

}  // namespace lockstep::kube
