#include "runtime/custom/loop_state.h"

#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

// splitmix64's finisher, over all that tells one call from another.
uint64_t random_key(int64_t seed, int64_t step, int64_t micro_batch, int64_t block) {
  uint64_t key = 0;
  for (const int64_t part : {seed, step, micro_batch, block}) {
    key += static_cast<uint64_t>(part) + 0x9e3779b97f4a7c15U;
    key = (key ^ (key >> 30U)) * 0xbf58476d1ce4e5b9U;
    key = (key ^ (key >> 27U)) * 0x94d049bb133111ebU;
    key ^= key >> 31U;
  }
  return key;
}

}  // namespace

int64_t CustomLoop::State::unit_after(size_t block) const {
  for (size_t next = block + 1; next < units.size(); ++next) {
    if (units[next] >= 0) return units[next];
  }
  return -1;
}

int64_t CustomLoop::State::unit_before(size_t block, size_t first) const {
  while (block-- > first) {
    if (units[block] >= 0) return units[block];
  }
  return -1;
}

size_t CustomLoop::State::first_trained() const {
  size_t block = 0;
  while (units[block] < 0 || blocks[block].is_frozen()) ++block;
  return block;
}

ConstValues CustomLoop::State::unshard(size_t block, int64_t next) {
  return units[block] < 0 ? ConstValues() : s.parallelism->unshard(units[block], next);
}

void CustomLoop::State::reshard(size_t block) {
  if (units[block] >= 0) s.parallelism->reshard(units[block]);
}

float* CustomLoop::State::gradient_buffer(size_t block) {
  return units[block] < 0 ? nullptr : s.parallelism->gradient_buffer(units[block]);
}

void CustomLoop::State::gradient_ready(size_t block) {
  if (units[block] >= 0 && !blocks[block].is_frozen()) s.parallelism->gradient_ready(units[block]);
}

ModuleUnit::Call CustomLoop::State::call(size_t block, ConstValues params,
                                         const TensorBatch& batch) const {
  const int64_t micro_batch = s.parallelism->micro_batches()[computed.losses.size()];
  return {params, batch,
          random_key(s.config().seed, s.step, micro_batch, static_cast<int64_t>(block))};
}

std::string CustomLoop::State::config_json() const {
  nlohmann::json names = nlohmann::json::array();
  for (const ModuleUnit& block : blocks) names.push_back(block.name());
  return nlohmann::json{{"model_type", "custom"},
                        {"blocks", names},
                        {"dtype", to_string(s.config().export_dtype)}}
             .dump(2) +
         "\n";
}

}  // namespace lockstep::runtime
