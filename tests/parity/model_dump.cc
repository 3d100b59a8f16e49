// Runs our decoder on a config.json and tokens, and writes what Transformers must reproduce:
//   model_dump CONFIG_JSON TOKENS OUT_FOLDER [WEIGHTS_FOLDER [ADAPTER_FOLDER]]
// TOKENS: one sequence per line, decimal; the last token of a line is only a label. A "|" begins a
// document, which sees nothing of those before it. Weights that start as ones or zeros are moved
// away from there, so that a bias left out shows. Written:
//   model/config.json, model/model.safetensors   initial weights
//   gradients.safetensors                        of the mean loss at the initial weights
//   logits.f32                                   [sequences, length, vocab], raw
//   losses.txt                                   mean loss before each of 10 AdamW steps and after
//   losses_bf16.txt                              the same, computed in bf16
// or the probabilities of sampling for each line of a file, a JSON list per line:
//   model_dump sampling LINES    {"temperature": .., "top_k": .., "top_p": .., "logits": [..]}
// With WEIGHTS_FOLDER, a Hugging Face directory, only the logits of its weights; with a PEFT
// adapter added to them if ADAPTER_FOLDER names one.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <optional>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/common/config_json.h"
#include "runtime/common/peft_config.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/cached_decoder.h"
#include "runtime/model/decoder.h"
#include "runtime/train/merged_weights.h"
#include "runtime/train/pretrained_weights.h"
#include "runtime/train/sampling.h"

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
  std::vector<int32_t> positions;       // in the document
  bool is_packed = false;
  const int32_t* documents() const { return is_packed ? positions.data() : nullptr; }
};

Batch read_batch(const std::string& path) {
  std::ifstream file(path);
  Batch batch;
  for (std::string line; std::getline(file, line); ++batch.shape.batch) {
    std::istringstream words(line);
    std::vector<int32_t> row;
    int32_t position = 0;
    for (std::string word; words >> word;) {
      if (word == "|") {
        position = 0;
        batch.is_packed = true;
        continue;
      }
      row.push_back(std::stoi(word));
      batch.positions.push_back(position++);
    }
    batch.positions.pop_back();
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
    check(writer.write_range(static_cast<int64_t>(i), 0, std::as_bytes(std::span(values[i]))));
  }
  check(writer.sync());
  check(writer.finish());
}

// Adds noise to what does not start as noise.
void move_constants(Unit unit, std::vector<float>& params) {
  std::vector<UnitTensor> constant;
  for (UnitTensor& tensor : unit.tensors) {
    if (tensor.init != Init::kNormal) constant.push_back(tensor);
    tensor.init = Init::kNormal;
  }
  std::vector<float> noise(params.size());
  initial_weights(unit, kSeed + 1, /*initializer_range=*/0.2, 0, noise);
  for (const UnitTensor& tensor : constant) {
    for (int64_t i = tensor.begin_elem; i < tensor.begin_elem + tensor.num_elems; ++i) {
      params[static_cast<size_t>(i)] += noise[static_cast<size_t>(i)];
    }
  }
}

// What the blocks compute with: the parameters, or copies of them rounded to bf16.
struct ComputeParams {
  ComputeParams(DType dtype, const UnitBuffers& params) : copies(params.size()) {
    for (size_t i = 0; i < params.size(); ++i) {
      copies[i].resize(dtype == DType::kFp32 ? 0 : params[i].size());
      views.emplace_back(params[i].data());
      if (dtype == DType::kFp32) continue;
      views[i] = {dtype, copies[i].data()};
      narrow(static_cast<int64_t>(params[i].size()), params[i].data(), {dtype, copies[i].data()});
    }
  }
  std::vector<std::vector<uint16_t>> copies;
  std::vector<ConstValues> views;
};

// Mean loss of the batch; its gradients if `gradients` is given.
double run_pass(Decoder& decoder, const Batch& batch, const UnitBuffers& masters, DType dtype,
                UnitBuffers* gradients) {
  const ComputeParams compute(dtype, masters);
  const std::vector<ConstValues>& params = compute.views;
  const auto num_tokens = static_cast<double>(batch.labels.size());
  MicroBatchIo io = {.tokens = batch.tokens.data(),
                     .labels = batch.labels.data(),
                     .positions = batch.documents(),
                     .loss_scale = static_cast<float>(1 / num_tokens)};
  const bool is_tied = decoder.tied_block() == 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (is_tied && i + 1 == params.size()) decoder.lend_tied(params.front(), nullptr);
    decoder.forward_block(static_cast<int64_t>(i), params[i], io);
  }
  if (gradients != nullptr) {
    gradients->front().resize(masters.front().size());
    if (is_tied) decoder.lend_tied(params.front(), gradients->front().data());
    for (size_t i = params.size(); i-- > 0;) {
      (*gradients)[i].resize(masters[i].size());
      decoder.backward_block(static_cast<int64_t>(i), params[i], io, (*gradients)[i].data());
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

// Token by token, as text is made.
void write_logits(const std::string& path, const common::ModelConfig& config, const Batch& batch,
                  const UnitBuffers& params) {
  std::vector<ConstValues> pointers;
  for (const std::vector<float>& unit : params) pointers.emplace_back(unit.data());
  CachedDecoder decoder(config, batch.shape.seq, pointers);
  std::ofstream file(path, std::ios::binary);
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    if (batch.positions[row] == 0) decoder.keep(0);
    const std::vector<float> logits = decoder.extend(std::span(&batch.tokens[row], 1));
    file.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size() * sizeof(float)));
  }
}

// Losses of kSteps AdamW steps from `params` on; the first gradients are left in `first_gradients`.
std::vector<double> train(const common::ModelConfig& config, const Batch& batch, DType dtype,
                          UnitBuffers params, UnitBuffers& first_gradients) {
  const std::vector<Unit> units = model_units(config);
  Decoder decoder(config, batch.shape, common::ActivationCheckpointing::kNone, dtype);
  UnitBuffers gradients(units.size());
  UnitBuffers moments1, moments2;
  for (const Unit& unit : units) moments1.emplace_back(static_cast<size_t>(unit.num_elems));
  moments2 = moments1;
  std::vector<double> losses;
  for (int step = 1; step <= kSteps; ++step) {
    losses.push_back(run_pass(decoder, batch, params, dtype, &gradients));
    if (step == 1) first_gradients = gradients;
    update(units, step, gradients, params, moments1, moments2);
  }
  losses.push_back(run_pass(decoder, batch, params, dtype, nullptr));
  return losses;
}

void write_losses(const std::string& path, const std::vector<double>& losses) {
  std::ofstream file(path);
  file << std::setprecision(17);
  for (const double loss : losses) file << loss << "\n";
}

// Logits of the weights of a Hugging Face directory.
void dump_pretrained(const std::string& config_path, const std::string& tokens_path,
                     const std::string& out, const std::string& folder,
                     const std::string& adapter) {
  const common::ModelConfig config = take(common::read_config_json(config_path));
  const Batch batch = read_batch(tokens_path);
  const std::vector<Unit> units = model_units(config);
  const PretrainedWeights weights = take(PretrainedWeights::open(folder, config, units));
  std::optional<MergedWeights> merged;
  if (!adapter.empty()) {
    const common::PeftAdapter peft = take(common::read_adapter_config(adapter));
    merged.emplace(take(MergedWeights::open(weights, adapter, config, peft.lora)));
  }
  UnitBuffers params;
  for (const Unit& unit : units) {
    const auto index = static_cast<int64_t>(params.size());
    params.emplace_back(static_cast<size_t>(unit.num_elems));
    check(merged ? merged->read(index, 0, params.back()) : weights.read(index, 0, params.back()));
  }
  write_logits(out + "/logits.f32", config, batch, params);
}

int dump_sampling(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json given = nlohmann::json::parse(line);
    const Sampling sampling = {.temperature = given.at("temperature").get<double>(),
                               .top_k = given.at("top_k").get<int64_t>(),
                               .top_p = given.at("top_p").get<double>()};
    const auto logits = given.at("logits").get<std::vector<float>>();
    printf("%s\n", nlohmann::json(token_probabilities(logits, sampling)).dump().c_str());
  }
  return 0;
}

void dump(const std::string& config_path, const std::string& tokens_path, const std::string& out) {
  const common::ModelConfig config = take(common::read_config_json(config_path));
  const Batch batch = read_batch(tokens_path);
  const std::vector<Unit> units = model_units(config);
  UnitBuffers params;
  for (const Unit& unit : units) {
    params.emplace_back(static_cast<size_t>(unit.num_elems));
    initial_weights(unit, kSeed, config.initializer_range, 0, params.back());
    move_constants(unit, params.back());
  }

  std::filesystem::create_directories(out + "/model");
  std::ofstream(out + "/model/config.json") << encode_config_json(config);
  write_tensors(out + "/model/model.safetensors", units, params);
  write_logits(out + "/logits.f32", config, batch, params);

  UnitBuffers gradients;
  UnitBuffers unused;
  write_losses(out + "/losses.txt", train(config, batch, DType::kFp32, params, gradients));
  write_losses(out + "/losses_bf16.txt", train(config, batch, DType::kBf16, params, unused));
  write_tensors(out + "/gradients.safetensors", units, gradients);
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "sampling") {
    return lockstep::runtime::dump_sampling(argv[2]);
  }
  if (argc < 4 || argc > 6) {
    fprintf(stderr,
            "usage: model_dump CONFIG_JSON TOKENS OUT_FOLDER [WEIGHTS_FOLDER [ADAPTER_FOLDER]]\n");
    return 2;
  }
  try {
    if (argc == 4) {
      lockstep::runtime::dump(argv[1], argv[2], argv[3]);
    } else {
      lockstep::runtime::dump_pretrained(argv[1], argv[2], argv[3], argv[4],
                                         argc > 5 ? argv[5] : "");
    }
  } catch (const std::exception& error) {
    fprintf(stderr, "model_dump: %s\n", error.what());
    return 1;
  }
  return 0;
}
