// A Disk that works until its k-th call, then fails or "crashes" there. A crash is an exception
// that no code of ours catches; what was written but not synced by then is lost, as after a power
// cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "runtime/checkpoint/disk.h"

namespace lockstep::runtime {

struct Crash : std::runtime_error {
  Crash() : std::runtime_error("crash") {}
};

enum class Fault {
  kFailOnce,     // that call has no effect and returns an error; later ones work
  kFailForever,  // that call and all later ones do
  kCrashBefore,  // the process ends instead of that call; a write gets half through
  kCrashAfter,   // the process ends right after it
};

inline void PrintTo(Fault fault, std::ostream* out) {
  constexpr const char* kNames[] = {"fail once", "fail forever", "crash before", "crash after"};
  *out << kNames[static_cast<std::size_t>(fault)];
}

class FaultyDisk final : public Disk {
 public:
  // `at_call` counts from 0; INT64_MAX never faults.
  FaultyDisk(Fault fault, int64_t at_call) : fault_(fault), at_call_(at_call) {}
  ~FaultyDisk() override {
    for (const auto& [path, descriptor] : unsynced_) ::close(descriptor);
  }

  int64_t num_calls() const { return num_calls_; }

  // Loses what is not synced.
  void cut_power() {
    for (const auto& [path, descriptor] : unsynced_) {
      if (::ftruncate(descriptor, 0) != 0) throw std::runtime_error("cannot lose " + path);
    }
    std::reverse(unsynced_renames_.begin(), unsynced_renames_.end());
    for (const auto& [from, to] : unsynced_renames_) {
      if (std::filesystem::exists(to)) std::filesystem::rename(to, from);
    }
  }

  common::Result<std::unique_ptr<DiskFile>> open(const std::string& path, OpenMode mode) override {
    RETURN_IF_ERROR(before());
    auto file = real_->open(path, mode);
    if (file && mode == OpenMode::kCreate) mark_unsynced(**file);
    after();
    return file;
  }

  common::Result<void> write_at(DiskFile& file, int64_t offset_bytes,
                                std::span<const std::byte> bytes) override {
    mark_unsynced(file);
    if (is_crash_before()) (void)real_->write_at(file, offset_bytes, bytes.first(bytes.size() / 2));
    RETURN_IF_ERROR(before());
    return then(real_->write_at(file, offset_bytes, bytes));
  }

  common::Result<void> sync_file(DiskFile& file) override {
    RETURN_IF_ERROR(before());
    const auto result = real_->sync_file(file);
    if (const auto found = unsynced_.find(file.path()); found != unsynced_.end()) {
      ::close(found->second);
      unsynced_.erase(found);
    }
    return then(result);
  }

  common::Result<void> sync_folder(const std::string& path) override {
    RETURN_IF_ERROR(before());
    const auto result = real_->sync_folder(path);
    std::erase_if(unsynced_renames_, [&](const auto& rename) {
      return std::filesystem::path(rename.second).parent_path() == path;
    });
    return then(result);
  }

  common::Result<void> make_folder(const std::string& path) override {
    RETURN_IF_ERROR(before());
    return then(real_->make_folder(path));
  }

  common::Result<void> rename(const std::string& from, const std::string& to) override {
    RETURN_IF_ERROR(before());
    const bool is_folder = std::filesystem::is_directory(from);
    const auto result = real_->rename(from, to);
    if (result && is_folder) unsynced_renames_.emplace_back(from, to);
    return then(result);
  }

  common::Result<void> remove_tree(const std::string& path) override {
    RETURN_IF_ERROR(before());
    return then(real_->remove_tree(path));
  }

 private:
  bool is_crash_before() const { return fault_ == Fault::kCrashBefore && num_calls_ == at_call_; }

  // Counts the call; fails or crashes if it is the one.
  common::Result<void> before() {
    if (is_crash_before()) crash();
    const int64_t call = num_calls_++;
    const bool fails = (fault_ == Fault::kFailOnce && call == at_call_) ||
                       (fault_ == Fault::kFailForever && call >= at_call_);
    if (fails) {
      return common::Error{common::ErrorCode::kUnavailable, "injected: No space left on device",
                           ""};
    }
    return {};
  }

  void after() {
    if (fault_ == Fault::kCrashAfter && num_calls_ - 1 == at_call_) crash();
  }

  common::Result<void> then(common::Result<void> result) {
    after();
    return result;
  }

  void mark_unsynced(const DiskFile& file) {
    if (!unsynced_.contains(file.path())) unsynced_[file.path()] = ::dup(file.descriptor());
  }

  [[noreturn]] void crash() {
    cut_power();
    throw Crash();
  }

  std::unique_ptr<Disk> real_ = real_disk();
  Fault fault_;
  int64_t at_call_;
  int64_t num_calls_ = 0;
  std::map<std::string, int> unsynced_;  // path as opened -> a descriptor of our own
  std::vector<std::pair<std::string, std::string>> unsynced_renames_;  // of folders: from, to
};

}  // namespace lockstep::runtime
