// hub_server FOLDER: serves FOLDER/{models,datasets}/ORG/NAME as a hub; HUB_TOKEN: whose bearer
// alone may read, if set. Prints its address, then waits: each line on standard input makes it read
// the folder again, as new commits, and print "read"; it ends with standard input.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/support/hub_server/hub_server.h"

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void read_repos(const fs::path& folder, lockstep::support::HubServer& server) {
  const char* const token = std::getenv("HUB_TOKEN");
  for (const char* const api : {"models", "datasets"}) {
    if (!fs::exists(folder / api)) continue;
    for (const fs::directory_entry& org : fs::directory_iterator(folder / api)) {
      for (const fs::directory_entry& named : fs::directory_iterator(org)) {
        lockstep::support::HubRepo repo{.api = api,
                                        .name = fs::relative(named, folder / api).string(),
                                        .files = {},
                                        .token = token == nullptr ? "" : token};
        for (const fs::directory_entry& file : fs::recursive_directory_iterator(named)) {
          if (!file.is_regular_file()) continue;
          repo.files[fs::relative(file, named).string()] = text_of(file);
        }
        server.put(repo);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: hub_server FOLDER\n";
    return 2;
  }
  lockstep::support::HubServer server;
  read_repos(argv[1], server);
  std::cout << server.url() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    read_repos(argv[1], server);
    std::cout << "read" << std::endl;
  }
  return 0;
}
