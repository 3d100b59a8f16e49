// Runs our decoder on a config.json and tokens, and writes what Transformers must reproduce:
//   llama_dump CONFIG_JSON TOKENS OUT_FOLDER
// TOKENS: one sequence per line, decimal; the last token of a line is only a label. Written:
//   model/config.json, model/model.safetensors   initial weights
//   gradients.safetensors                        of the mean loss at the initial weights
//   logits.f32                                   [sequences, length, vocab], raw
//   losses.txt                                   mean loss before each of 10 AdamW steps and after
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <stdexcept>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/config_json.h"
#include "runtime/model/decoder.h"

namespace lockstep::runtime {
namespace {

constexpr uint64_t kSeed = 42;
constexpr int kSteps = 10;
constexpr double kLr = 1e-3, kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8, kWeightDecay = 0.1;
constexpr double kClip = 1.0;

using UnitBuffers = std::vector<std::vector<float>>;

void check(const common::Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

template <typename T>
T take(common::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

struct Batch {
  BatchShape shape;
  std::vector<int32_t> tokens, labels;  // labels are the tokens one further on
};

Batch read_batch(const std::string& path) {
  std::ifstream file(path);
  Batch batch;
  for (std::string line; std::getline(file, line); ++batch.shape.batch) {
    std::istringstream words(line);
    std::vector<int32_t> row;
    for (int32_t token = 0; words >> token;) row.push_back(token);
    batch.tokens.insert(batch.tokens.end(), row.begin(), row.end() - 1);
    batch.labels.insert(batch.labels.end(), row.begin() + 1, row.end());
    batch.shape.seq = static_cast<int64_t>(row.size()) - 1;
  }
  return batch;
}

void write_tensors(const std::string& path, const std::vector<Unit>& units,
                   const UnitBuffers& values) {
  std::vector<UnitLayout> layouts;
  for (const Unit& unit : units) {
    UnitLayout layout = {.num_elems = unit.num_elems};
    for (const UnitTensor& tensor : unit.tensors) {
      layout.tensors.push_back({.name = tensor.name,
                                .shape = tensor.shape,
                                .begin_elem = tensor.begin_elem,
                                .num_elems = tensor.num_elems});
    }
    layouts.push_back(std::move(layout));
  }
  const std::unique_ptr<Disk> disk = real_disk();
  const SafetensorsPlan plan = take(plan_safetensors(layouts));
  SafetensorsWriter writer = take(SafetensorsWriter::create(*disk, path, plan));
  for (size_t i = 0; i < values.size(); ++i) {
    check(writer.write_range(static_cast<int64_t>(i), 0, values[i]));
  }
  check(writer.sync());
  check(writer.finish());
}

// Mean loss of the batch; its gradients if `gradients` is given.
double run_pass(Decoder& decoder, const Batch& batch, const UnitBuffers& params,
                UnitBuffers* gradients) {
  const auto num_tokens = static_cast<double>(batch.labels.size());
  MicroBatchIo io = {.tokens = batch.tokens.data(),
                     .labels = batch.labels.data(),
                     .loss_scale = static_cast<float>(1 / num_tokens)};
  const bool is_tied = decoder.tied_block() == 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (is_tied && i + 1 == params.size()) decoder.lend_tied(params.front().data(), nullptr);
    decoder.forward_block(static_cast<int64_t>(i), params[i].data(), io);
  }
  if (gradients != nullptr) {
    gradients->front().resize(params.front().size());
    if (is_tied) decoder.lend_tied(params.front().data(), gradients->front().data());
    for (size_t i = params.size(); i-- > 0;) {
      (*gradients)[i].resize(params[i].size());
      decoder.backward_block(static_cast<int64_t>(i), params[i].data(), io, (*gradients)[i].data());
    }
  }
  return io.loss_sum / num_tokens;
}

double global_norm(const UnitBuffers& gradients) {
  double sum = 0;
  for (const std::vector<float>& gradient : gradients) {
    const auto count = static_cast<int64_t>(gradient.size());
    std::vector<double> chunks(
        static_cast<size_t>((count + kNormChunkElems - 1) / kNormChunkElems));
    sum_squares_chunks(count, gradient.data(), chunks.data());
    for (const double chunk : chunks) sum += chunk;
  }
  return std::sqrt(sum);
}

// One AdamW step, decay on matrices only.
void update(const std::vector<Unit>& units, int step, const UnitBuffers& gradients,
            UnitBuffers& params, UnitBuffers& moments1, UnitBuffers& moments2) {
  const double clip = std::min(1.0, kClip / (global_norm(gradients) + 1e-6));
  for (size_t i = 0; i < units.size(); ++i) {
    for (const UnitTensor& tensor : units[i].tensors) {
      const AdamStep adam = {.lr = kLr,
                             .beta1 = kBeta1,
                             .beta2 = kBeta2,
                             .eps = kEps,
                             .weight_decay = tensor.shape.size() > 1 ? kWeightDecay : 0.0,
                             .bias_correction1 = 1 - std::pow(kBeta1, step),
                             .bias_correction2 = 1 - std::pow(kBeta2, step),
                             .gradient_scale = clip};
      const int64_t at = tensor.begin_elem;
      adamw(adam, tensor.num_elems, gradients[i].data() + at, params[i].data() + at,
            moments1[i].data() + at, moments2[i].data() + at);
    }
  }
}

void write_logits(const std::string& path, Decoder& decoder, const Batch& batch,
                  const UnitBuffers& params) {
  std::vector<const float*> pointers;
  for (const std::vector<float>& unit : params) pointers.push_back(unit.data());
  std::ofstream file(path, std::ios::binary);
  const auto seq = static_cast<size_t>(batch.shape.seq);
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    const std::span<const int32_t> prefix(&batch.tokens[row / seq * seq], row % seq + 1);
    const std::vector<float> logits = decoder.next_token_logits(prefix, pointers);
    file.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size() * sizeof(float)));
  }
}

void dump(const std::string& config_path, const std::string& tokens_path, const std::string& out) {
  const common::ModelConfig config = take(read_config_json(config_path));
  const Batch batch = read_batch(tokens_path);
  const std::vector<Unit> units = model_units(config);
  Decoder decoder(config, batch.shape);
  UnitBuffers params;
  for (const Unit& unit : units) {
    params.emplace_back(static_cast<size_t>(unit.num_elems));
    initial_weights(unit, kSeed, config.initializer_range, 0, params.back());
  }

  std::filesystem::create_directories(out + "/model");
  std::ofstream(out + "/model/config.json") << encode_config_json(config);
  write_tensors(out + "/model/model.safetensors", units, params);
  write_logits(out + "/logits.f32", decoder, batch, params);

  UnitBuffers gradients(units.size());
  UnitBuffers moments1, moments2;
  for (const Unit& unit : units) moments1.emplace_back(static_cast<size_t>(unit.num_elems));
  moments2 = moments1;
  std::ofstream losses(out + "/losses.txt");
  losses << std::setprecision(17);
  for (int step = 1; step <= kSteps; ++step) {
    losses << run_pass(decoder, batch, params, &gradients) << "\n";
    if (step == 1) write_tensors(out + "/gradients.safetensors", units, gradients);
    update(units, step, gradients, params, moments1, moments2);
  }
  losses << run_pass(decoder, batch, params, nullptr) << "\n";
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: llama_dump CONFIG_JSON TOKENS OUT_FOLDER\n");
    return 2;
  }
  try {
    lockstep::runtime::dump(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    fprintf(stderr, "llama_dump: %s\n", error.what());
    return 1;
  }
  return 0;
}
