// safetensors files: written by all ranks at once, each its own byte ranges, and read by ranges.
// Format: 8 bytes little-endian length of the header, JSON header, tensors. All tensors of a file
// that we write are of one type.
// Source: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/disk.h"
#include "runtime/common/dtype.h"
#include "runtime/common/result.h"

namespace lockstep::runtime {

// A safetensors file begins with the length of its header, little-endian.
inline constexpr std::size_t kLengthFieldBytes = sizeof(uint64_t);

struct TensorLayout {
  std::string name;
  std::vector<int64_t> shape;
  int64_t begin_elem = 0;  // in its unit
  int64_t num_elems = 0;   // the product of shape
};

struct UnitLayout {
  std::vector<TensorLayout> tensors;  // contiguous, in order, from element 0 to num_elems
  int64_t num_elems = 0;
};

struct SafetensorsPlan {
  std::string header;                       // length field and JSON, padded to 8 bytes
  std::vector<int64_t> unit_offsets_bytes;  // in the file, one per unit
  int64_t total_bytes = 0;
  int64_t elem_bytes = 4;
};

// The file's layout, equal on every rank: units one after the other. The header depends on names,
// shapes and type only. kInvalidArgument names the tensor if a unit is not tiled by its tensors or
// a name is used twice.
common::Result<SafetensorsPlan> plan_safetensors(std::span<const UnitLayout> units,
                                                 common::DType dtype = common::DType::kFp32);

// Rank 0: create(), then (after a barrier) every rank: join(), write_range()..., sync(), then
// (after a barrier) rank 0: finish(). Until then the file has a hidden temporary name.
class SafetensorsWriter {
 public:
  // Rank 0: makes the folder and the temporary file in its full size, and writes the header.
  static common::Result<SafetensorsWriter> create(Disk& disk, const std::string& path,
                                                  const SafetensorsPlan& plan);
  // Other ranks: opens the temporary file. kNotFound if rank 0 has not created it.
  static common::Result<SafetensorsWriter> join(Disk& disk, const std::string& path,
                                                const SafetensorsPlan& plan);

  // Writes `elements`, of the plan's type, from element begin_elem of unit `unit` on, which must
  // hold them.
  common::Result<void> write_range(int64_t unit, int64_t begin_elem,
                                   std::span<const std::byte> elements);
  // Returns when this rank's ranges are on stable storage.
  common::Result<void> sync();
  // Rank 0, after all ranks' sync(): gives the file its name. A reader sees all of it or nothing.
  common::Result<void> finish();

 private:
  SafetensorsWriter(Disk& disk, std::string path, const SafetensorsPlan& plan,
                    std::unique_ptr<DiskFile> file);

  Disk* disk_;  // borrowed; outlives the writer
  std::string path_;
  std::vector<int64_t> unit_offsets_bytes_;
  int64_t total_bytes_;
  int64_t elem_bytes_;
  std::unique_ptr<DiskFile> file_;
};

// Where a tensor lies in its file.
struct StoredTensor {
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin_bytes = 0;  // in the file
  int64_t num_bytes = 0;
};

// Reads a file that may come from anywhere: its header is checked before anything is believed.
class SafetensorsReader {
 public:
  // Reads and checks the header: length, offsets, shapes, and that the tensors tile the file.
  // kDataLoss names what is wrong; kNotFound, kPermissionDenied, ... if it cannot be opened.
  static common::Result<SafetensorsReader> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Fills `out` from byte `begin_bytes` of the tensor on, which must hold it. May be called from
  // several threads. kDataLoss if the file has become shorter.
  common::Result<void> read(const StoredTensor& tensor, int64_t begin_bytes,
                            std::span<std::byte> out) const;

  // An identity of the file: its header, its size and both edges of its data. A change in the
  // middle of a tensor goes unseen.
  common::Result<uint32_t> fingerprint() const;

  // The file's size and when it was last changed, in ns: another one after any change, on one
  // machine. Copies of a file have stamps of their own. kInternal if the system does not say.
  common::Result<std::string> stamp() const;

 private:
  SafetensorsReader(std::unique_ptr<DiskFile> file, std::string header, int64_t file_bytes);
  common::Result<void> read_at(int64_t offset_bytes, std::span<std::byte> out) const;

  std::unique_ptr<DiskFile> file_;
  std::string header_;
  int64_t file_bytes_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace lockstep::runtime
