// Runs our optimizers on the weights and gradients of a folder, for optimizer_parity.py.
//   optimizer_dump FOLDER
// Reads FOLDER/case.json: {"optimizer": {fields of spec.train.optimizer}, "steps": n, "elems": n,
// "decay_begin": n, "lr": [one a step], "gradient_scale": [one a step]}, weights.f32 [elems] and
// gradients.f32 [steps, elems]; elements from decay_begin on decay. Writes FOLDER/result.f32
// [steps, elems], the weights after each step.
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/optim/optimizer.h"

namespace lockstep::runtime {
namespace {

std::vector<float> read_floats(const std::string& path, int64_t num_elems) {
  std::vector<float> values(static_cast<size_t>(num_elems));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file) throw std::runtime_error(path + " is too short");
  return values;
}

common::OptimizerConfig read_optimizer(const nlohmann::json& optimizer) {
  const nlohmann::json train = {{"model",
                                 {{"config",
                                   {{"vocab_size", 256},
                                    {"hidden_size", 8},
                                    {"intermediate_size", 8},
                                    {"num_hidden_layers", 1},
                                    {"num_attention_heads", 1}}}}},
                                {"data", {{"train", "unused"}, {"sequenceLength", 8}}},
                                {"batch", {{"globalBatchSize", 1}}},
                                {"steps", 1},
                                {"optimizer", optimizer}};
  for (const common::Problem& problem : common::check_train(train, 1, "train")) {
    throw std::runtime_error(to_string(problem, "case.json"));
  }
  return common::decode_train(train).optimizer;
}

void run(const std::string& folder) {
  nlohmann::json spec;
  std::ifstream(folder + "/case.json") >> spec;
  const auto steps = spec.at("steps").get<int64_t>();
  const auto elems = spec.at("elems").get<int64_t>();
  const auto decay_begin = spec.at("decay_begin").get<int64_t>();
  const common::OptimizerConfig config = read_optimizer(spec.at("optimizer"));
  const auto optimizer =
      make_optimizer(config, {{{0, decay_begin, false}, {decay_begin, elems, true}}});

  std::vector<float> weights = read_floats(folder + "/weights.f32", elems);
  std::vector<float> gradients = read_floats(folder + "/gradients.f32", steps * elems);
  std::vector<float> moment1(num_moments(config) >= 1 ? weights.size() : 0);
  std::vector<float> moment2(num_moments(config) >= 2 ? weights.size() : 0);
  std::ofstream result(folder + "/result.f32", std::ios::binary);
  for (int64_t step = 1; step <= steps; ++step) {
    const auto index = static_cast<size_t>(step - 1);
    const std::vector<ParamShard> shards = {
        {.weights = weights,
         .gradient = std::span(gradients).subspan(index * weights.size(), weights.size()),
         .moment1 = moment1,
         .moment2 = moment2}};
    optimizer->step({.step = step,
                     .lr = spec.at("lr").at(index).get<double>(),
                     .gradient_scale = spec.at("gradient_scale").at(index).get<float>()},
                    shards);
    result.write(reinterpret_cast<const char*>(weights.data()),
                 static_cast<std::streamsize>(weights.size() * sizeof(float)));
  }
  result.close();
  if (!result) throw std::runtime_error("cannot write result.f32");
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: optimizer_dump FOLDER");
    lockstep::runtime::run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "optimizer_dump: %s\n", error.what());
    return 1;
  }
}
