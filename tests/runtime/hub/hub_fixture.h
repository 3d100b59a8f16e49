// A hub on loopback with one model and one data set, a cache of the test's own, and pauses that are
// told instead of waited for.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/hub/fetch.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/hub_server/hub_server.h"

namespace lockstep::runtime {

class HubTest : public testing::Test {
 protected:
  static constexpr const char* kWeights = "model.safetensors";

  HubTest() { commit_ = server_.put(model()); }

  static support::HubRepo model() {
    std::string weights;
    for (int i = 0; i < 50000; ++i) weights += std::to_string(i);
    return {.name = "org/tiny",
            .files = {{"README.md", "a card"},
                      {"config.json", R"({"model_type": "llama"})"},
                      {kWeights, weights},
                      {"pytorch_model.bin", "never"},
                      {"tokenizer.json", "{}"}}};
  }

  HubSession session(const std::string& token = "") {
    return {.settings = {.endpoint = server_.url(), .token = token, .cache = folder_ / "hub"},
            .stop = {},
            .pause = [this](std::chrono::seconds duration, const std::stop_token&) {
              pauses_.push_back(duration);
            }};
  }
  HubSession offline_session() {
    HubSession offline = session();
    offline.settings.is_offline = true;
    return offline;
  }

  static common::HubReference reference(const std::string& text = "hf://org/tiny") {
    return common::parse_hub_reference(text, common::HubKind::kModel).value();
  }

  common::Result<Fetched> fetch(const HubSession& session,
                                const std::string& text = "hf://org/tiny") {
    const common::Result<std::string> commit = resolve_revision(session, reference(text));
    if (!commit) return commit.error();
    progress_.bytes_wanted = 0;
    progress_.bytes_come = 0;
    return fetch_model(session, reference(text), *commit, true, progress_);
  }

  // Where the contents of the weights are called in the cache.
  std::string blob() const {
    return repo_cache(folder_ / "hub", reference())
        .blob(support::HubServer::sha256_of(model().files.at(kWeights)));
  }
  std::string partial() const { return blob() + ".incomplete"; }

  // "Range" of the requests to the content host.
  std::vector<std::string> ranges() const {
    std::vector<std::string> found;
    for (const support::HubRequest& request : server_.requests()) {
      if (!request.to_content_host) continue;
      const auto range = request.headers.find("range");
      found.push_back(range == request.headers.end() ? "" : range->second);
    }
    return found;
  }

  TempFolder folder_;
  support::HubServer server_;
  std::string commit_;
  FetchProgress progress_;
  std::vector<std::chrono::seconds> pauses_;
};

}  // namespace lockstep::runtime
