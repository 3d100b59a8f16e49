// The weights of a Hugging Face directory: model.safetensors, or the shards that
// model.safetensors.index.json names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace lockstep::runtime {

// A tensor and the file that holds it; lives as long as the folder.
struct FolderTensor {
  const SafetensorsReader* file = nullptr;
  const StoredTensor* stored = nullptr;
};

class SafetensorsFolder {
 public:
  // Opens all files of `folder` and reads their headers; of both layouts the single file wins, as
  // in Transformers.
  // Errors: kNotFound if there is neither, or a shard is missing; kDataLoss for an index or a file
  // that is not sound, and where index and shards disagree; as SafetensorsReader::open(). Messages
  // name the file, and the tensor if there is one.
  static common::Result<SafetensorsFolder> open(const std::string& folder);

  // The same of the one file FOLDER/NAME. Errors: as SafetensorsReader::open().
  static common::Result<SafetensorsFolder> open_file(const std::string& folder,
                                                     const std::string& name);

  const std::map<std::string, FolderTensor>& tensors() const { return tensors_; }

  // An identity of all files together, see SafetensorsReader::fingerprint().
  common::Result<std::string> fingerprint() const;

  // Of all files, see SafetensorsReader::stamp(): tells of changes that a fingerprint does not see.
  common::Result<std::string> stamp() const;

 private:
  explicit SafetensorsFolder(std::map<std::string, SafetensorsReader> files);

  std::map<std::string, SafetensorsReader> files_;  // by name; nodes never move
  std::map<std::string, FolderTensor> tensors_;
};

}  // namespace lockstep::runtime
