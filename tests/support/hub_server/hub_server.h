// A server that speaks the Hugging Face hub's protocol, as far as downloads go, on two loopback
// ports: the hub's, and that of the content host to which it redirects large files, which refuses
// requests that bring a token. Spoken to by our own client and by huggingface_hub
// (tests/parity/hub_parity.py), so that what it answers is what both take for a hub.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/loopback_listener.h"

namespace lockstep::support {

struct HubRepo {
  std::string api = "models";  // or "datasets"
  std::string name;            // ORG/NAME
  // Files of the newest commit, by path; commits are named after what they hold.
  std::map<std::string, std::string> files;
  std::string token;      // whose bearer alone may read it; empty: everybody
  bool is_gated = false;  // nobody has consented yet
};

// What goes wrong with one request, the next whose target contains `target`.
struct HubFault {
  std::string target;
  int status = 0;                 // answered in place of contents; 0: none
  std::string headers;            // of that answer, e.g. "Retry-After: 3\r\n"
  int64_t cut_after = -1;         // bytes of contents, then the connection ends
  bool changes_contents = false;  // the last byte is another
  bool ignores_range = false;
};

struct HubRequest {
  bool to_content_host = false;
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in small letters
};

class HubServer {
 public:
  HubServer();
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string url() const { return hub_.url(); }

  // Adds a repository, or a commit to one of this name: the branch main moves to it. Returns the
  // commit.
  std::string put(const HubRepo& repo);
  void add_fault(HubFault fault);
  std::vector<HubRequest> requests() const;
  // Requests so far whose target contains `part`.
  int count(const std::string& part) const;

  // The names that the hub gives to contents.
  static std::string sha256_of(const std::string& contents);
  static std::string git_sha1_of(const std::string& contents);
  // Whether git holds a pointer only to a file of this name.
  static bool is_large(const std::string& path);

 private:
  struct StoredRepo {
    HubRepo newest;
    std::string head;                                                   // commit of main
    std::map<std::string, std::map<std::string, std::string>> commits;  // files
  };
  struct Answer {
    int status = 200;
    std::string headers;
    std::string body;
    int64_t cut_after = -1;
  };

  void serve(const LoopbackListener& listener, bool is_content_host, const std::stop_token& stop);
  void serve_one(int fd, bool is_content_host);
  Answer answer(const HubRequest& request);
  Answer api(const HubRequest& request, const StoredRepo& repo, const std::string& rest) const;
  Answer tree(const HubRequest& request, const StoredRepo& repo, const std::string& commit) const;
  Answer resolve(const StoredRepo& repo, const std::string& revision, const std::string& path);
  static Answer contents(const HubRequest& request, const std::string& body, const HubFault& fault);
  HubFault take_fault(const std::string& target);
  const StoredRepo* find(const std::string& api, std::string& target) const;

  LoopbackListener hub_;
  LoopbackListener content_;
  mutable std::mutex mutex_;
  std::map<std::string, StoredRepo> repos_;   // by "models/ORG/NAME"; guarded by mutex_
  std::map<std::string, std::string> blobs_;  // by etag; guarded by mutex_
  std::deque<HubFault> faults_;               // guarded by mutex_
  std::vector<HubRequest> requests_;          // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace lockstep::support
