#include "runtime/common/teacher_model.h"

#include <string>
#include <utility>

#include "runtime/common/config_json.h"
#include "runtime/common/hub_reference.h"

namespace lockstep::common {

Result<ModelConfig> read_teacher(const TrainConfig& train) {
  const std::string file = train.distill.teacher + "/config.json";
  ASSIGN_OR_RETURN(ModelConfig model, read_config_json(file));
  const int64_t ours = train.model.vocab_size;
  if (ours > 0 && model.vocab_size != ours) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " has vocab_size " + std::to_string(model.vocab_size) +
                     ", the model that learns has " + std::to_string(ours),
                 "name a teacher with the tokens of that model"};
  }
  const int64_t positions = model.max_position_embeddings;
  if (positions > 0 && train.data.sequence_length > positions) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " has max_position_embeddings " + std::to_string(positions) +
                     ", but train.data.sequenceLength is " +
                     std::to_string(train.data.sequence_length),
                 "lower it, or name a teacher for texts as long"};
  }
  return model;
}

Result<TrainConfig> decode_with_teacher(const nlohmann::json& train) {
  TrainConfig config = decode_train(train);
  if (config.task != Task::kDistill || is_hub_reference(config.distill.teacher)) return config;
  Result<ModelConfig> teacher = read_teacher(config);
  if (!teacher) {
    const Error& error = teacher.error();
    return Error{error.code, "train.distill.teacher: " + error.message, error.hint};
  }
  config.distill.model = std::move(teacher).value();
  return config;
}

}  // namespace lockstep::common
