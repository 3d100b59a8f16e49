#include "runtime/comm/gloo_collective.h"

#include <string>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "runtime/comm/async_collective.h"

namespace lockstep::runtime {
namespace {

at::Tensor as_tensor(std::span<std::byte> bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

// c10d takes inputs as mutable tensors and does not write them.
at::Tensor as_input(std::span<const std::byte> bytes) {
  return as_tensor({const_cast<std::byte*>(bytes.data()), bytes.size()});
}

// gloo throws one type for all that happens on the wire; only its words tell a late peer from a
// lost one. "Application timeout caused pair closure" is what operations after a timeout report.
[[noreturn]] void throw_translated(const std::exception& error, const std::string& what) {
  const std::string message = error.what();
  const std::string text = what + ": " + message.substr(0, message.find('\n'));
  if (message.find("imed out") != std::string::npos ||
      message.find("timeout") != std::string::npos) {
    throw CollectiveTimeoutError(text);
  }
  if (dynamic_cast<const c10::Error*>(&error) != nullptr) throw std::runtime_error(text);
  throw PeerLostError(text);
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options)
      : rank_(options.rank), world_size_(options.world_size) {
    const auto group_options = c10d::ProcessGroupGloo::Options::create(options.timeout);
    group_options->devices.push_back(
        c10d::ProcessGroupGloo::createDeviceForHostname(options.local_address));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank_, world_size_, group_options);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  std::string_view backend() const override { return "gloo"; }

  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                  std::string_view what) override {
    at::Tensor output = as_tensor(full);
    at::Tensor input = as_input(shard);
    await("all_gather of " + std::string(what),
          [&] { return group_->_allgather_base(output, input); });
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                  std::string_view what) override {
    at::Tensor output = as_tensor(recv);
    at::Tensor input = as_input(send);
    std::vector<int64_t> equal_split;
    await("all_to_all of " + std::string(what),
          [&] { return group_->alltoall_base(output, input, equal_split, equal_split); });
  }

 private:
  template <typename Issue>
  static void await(const std::string& what, const Issue& issue) {
    try {
      issue()->wait();
    } catch (const std::exception& error) {
      throw_translated(error, what);
    }
  }

  int rank_;
  int world_size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Collective> make_gloo_collective(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const GlooOptions& options) {
  return make_async_collective(std::make_unique<GlooTransport>(store, options));
}

}  // namespace lockstep::runtime
