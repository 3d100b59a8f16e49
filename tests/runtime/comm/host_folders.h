// Stand-ins for hosts: folders of shared memory that do not see each other.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {

// "0 0 1 1", for the names of tests.
inline std::string name_of_hosts(const std::vector<int>& host_of) {
  std::string name;
  for (const int host : host_of) name += (name.empty() ? "" : " ") + std::to_string(host);
  return name;
}

class HostFolders {
 public:
  // `host_of[rank]`: which host it is on, counted from 0.
  explicit HostFolders(std::vector<int> host_of)
      : root_(unique_segment_path()), host_of_(std::move(host_of)) {
    for (const int host : host_of_) std::filesystem::create_directories(folder(host));
  }
  ~HostFolders() { std::filesystem::remove_all(root_); }
  HostFolders(const HostFolders&) = delete;
  HostFolders& operator=(const HostFolders&) = delete;

  int num_ranks() const { return static_cast<int>(host_of_.size()); }
  std::string of_rank(int rank) const { return folder(host_of_.at(static_cast<size_t>(rank))); }
  // Files that were left behind.
  int num_files() const {
    int count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

 private:
  std::string folder(int host) const { return root_ + "/" + std::to_string(host); }

  std::string root_;
  std::vector<int> host_of_;
};

}  // namespace lockstep::runtime
