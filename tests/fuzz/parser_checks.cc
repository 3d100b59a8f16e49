#include "tests/fuzz/parser_checks.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <regex>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/controller/projection.h"
#include "operator/kube/api_error.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/line_splitter.h"
#include "operator/kube/object_key.h"
#include "operator/kube/watch_state.h"
#include "runtime/common/quantity.h"
#include "runtime/common/schema.h"

namespace lockstep::fuzz {

using nlohmann::json;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

constexpr std::size_t kMaxLine = 4096;

std::vector<std::string> lines_of(std::string_view bytes, std::size_t chunk, bool& too_long) {
  std::vector<std::string> lines;
  const auto keep = [&lines](std::string_view line) {
    lines.emplace_back(line);
    return true;
  };
  kube::LineSplitter splitter(kMaxLine);
  for (std::size_t at = 0; at < bytes.size(); at += chunk) {
    if (!splitter.feed(bytes.substr(at, chunk), keep)) break;
  }
  too_long = splitter.is_too_long();
  if (!too_long) splitter.finish(keep);
  return lines;
}

// As every kind that the operator watches: what is not of that kind is refused by an exception of
// JSON alone, which the informer takes for one object that is left out.
void project(const json& object) {
  const auto attempt = [&object](auto projection) {
    try {
      projection(object);
    } catch (const json::exception&) {
    }
  };
  attempt([](const json& it) { return kube::key_of(it); });
  attempt([](const json& it) { return control::project_pod(it); });
  attempt([](const json& it) { return control::project_child(it); });
  attempt([](const json& it) { return control::project_node(it); });
  attempt([](const json& it) {
    const auto job = api::decode_job(it);
    if (!job) require(!job.error().message.empty(), "a job is refused with words");
  });
}

void check_pause(const kube::WatchState& state) {
  const auto delay = state.next(0.5).delay;
  require(delay >= std::chrono::milliseconds(0), "no pause is negative");
  require(delay <= std::chrono::hours(1), "no pause lasts for hours");
}

void follow(kube::WatchState& state, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::string before = state.version();
    const kube::EventVerdict verdict = state.on_line(line);
    require(!kube::is_older(state.version(), before), "a watch never goes back in time");
    check_pause(state);
    if (const auto* event = std::get_if<kube::ObjectEvent>(&verdict)) {
      require(state.version() == kube::version_of(event->object), "an event's version is taken");
      project(event->object);
    } else if (const auto* listed = std::get_if<kube::ListedEvent>(&verdict)) {
      project(listed->object);
    } else if (const auto* end = std::get_if<kube::EndWatch>(&verdict)) {
      require(!end->why.empty(), "a watch ends for a reason");
      state.on_watch_end(std::nullopt, std::chrono::milliseconds(1));
    } else if (std::holds_alternative<kube::ListEnd>(verdict)) {
      state.on_watch_end(std::nullopt, std::chrono::milliseconds(1));
    }
  }
  state.on_watch_end(std::nullopt, std::chrono::milliseconds(5));
  check_pause(state);
}

void check_error(const kube::ApiError& error) {
  require(!error.error.message.empty(), "an error has words");
  (void)json(error.error.message).dump();  // throws, thus ends the process, if it is no UTF-8
  if (!error.retry_after) return;
  require(*error.retry_after >= std::chrono::seconds(0), "no server asks for a negative pause");
  require(*error.retry_after <= std::chrono::hours(1), "no server makes us wait for hours");
}

}  // namespace

void check_events(std::string_view bytes) {
  bool too_long = false;
  const std::vector<std::string> lines = lines_of(bytes, bytes.size() + 1, too_long);
  bool also_too_long = false;
  const std::vector<std::string> pieces = lines_of(bytes, 3, also_too_long);
  if (!too_long) require(lines == pieces, "where a stream is cut changes no line");
  kube::WatchState listed({}, {.initial_events = true});
  follow(listed, lines);
  kube::WatchState watched({}, {.initial_events = false});
  watched.on_page("5", "");
  follow(watched, lines);
}

void check_status(std::string_view bytes) {
  const std::string text(bytes);
  for (const int status : {200, 403, 409, 429, 500}) {
    for (const char* const method : {"GET", "POST"}) {
      const kube::HttpRequest request{method, "/api/v1/pods", "", ""};
      check_error(kube::decode_error(request, {status, "", text}));
      check_error(kube::decode_error(request, {status, text, ""}));
    }
  }
  const json object = json::parse(text, nullptr, false);
  if (!object.is_discarded()) check_error(kube::decode_status(object));
}

void check_kubeconfig(std::string_view bytes) {
  const std::string path = "/home/u/.kube/config";
  const kube::FileReader reader = [](const std::string& name) -> common::Result<std::string> {
    if (name.ends_with("empty")) return std::string();
    if (name.ends_with("absent")) {
      return common::Error{common::ErrorCode::kNotFound, name + ": cannot be read", ""};
    }
    return std::string("-----BEGIN CERTIFICATE-----");
  };
  // Twice: what is merged with itself is itself.
  const std::string text(bytes);
  const auto config = kube::resolve_kubeconfig({{path, text}, {path, text}}, "", reader);
  if (config) {
    require(!config->server.empty(), "a configuration names a server");
    return;
  }
  require(config.error().code == common::ErrorCode::kInvalidArgument, "an error is the user's");
  require(config.error().message.find(path) != std::string::npos ||
              config.error().message.find("kubeconfig") != std::string::npos ||
              config.error().message.find("context") != std::string::npos,
          "an error names the file");
}

void check_quantity(std::string_view bytes) {
  constexpr int64_t kFactor = 1000;
  const std::string text(bytes.substr(0, common::kMaxQuantityLength));
  static const std::regex pattern(common::kQuantityPattern, std::regex::ECMAScript);
  // ECMAScript's $ and [.] know nothing of zero bytes, nor does the pattern.
  const bool is_quantity = std::regex_match(text, pattern) && !text.starts_with('-');
  const std::optional<std::string> product = common::multiply_quantity(text, kFactor);
  require(product.has_value() == is_quantity, "the CRD's quantities are those we multiply");
  const std::optional<int64_t> amount = common::quantity_bytes(text);
  if (amount) require(is_quantity, "an amount of bytes is a quantity");
  if (!product) return;
  require(std::regex_match(*product, pattern), "a product is a quantity");
  require(common::multiply_quantity(*product, 1) == product, "a product is written shortest");
  const std::optional<int64_t> multiple = common::quantity_bytes(*product);
  if (!amount || !multiple) return;
  const auto once = static_cast<double>(*amount);
  const auto most = once * static_cast<double>(kFactor) * (1 + 1e-12) + 1;
  const auto least = (once - 1) * static_cast<double>(kFactor) * (1 - 1e-12) - 1;
  require(static_cast<double>(*multiple) <= most, "a product is at most the multiple");
  require(static_cast<double>(*multiple) >= least, "a product is at least the multiple");
}

std::span<const Parser> parsers() {
  static const std::array<Parser, 4> kAll{{{"events", check_events},
                                           {"status", check_status},
                                           {"kubeconfig", check_kubeconfig},
                                           {"quantity", check_quantity}}};
  return kAll;
}

}  // namespace lockstep::fuzz
