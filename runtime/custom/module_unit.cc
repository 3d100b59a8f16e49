#include "runtime/custom/module_unit.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sstream>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

std::string sizes_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

at::ScalarType scalar_type(DType dtype) {
  return dtype == DType::kBf16 ? at::kBFloat16 : at::kFloat;
}

// See Note [Borrowed parameters]. The unit's weights must stay while it lives.
class LentWeights {
 public:
  LentWeights(const std::vector<at::Tensor>& parameters, const Unit& unit, ConstValues params)
      : parameters_(parameters), unit_(unit) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const UnitTensor& tensor = unit.tensors[i];
      parameters[i].set_data(at::from_blob(const_cast<void*>(params.from(tensor.begin_elem).data),
                                           tensor.shape,
                                           at::TensorOptions().dtype(scalar_type(params.dtype))));
      versions_.push_back(parameters[i]._version());
    }
  }
  ~LentWeights() {
    for (const at::Tensor& parameter : parameters_) parameter.set_data(at::empty({0}, at::kFloat));
  }
  LentWeights(const LentWeights&) = delete;
  LentWeights& operator=(const LentWeights&) = delete;

  // The weights are the optimizer's to change.
  void check_unchanged() const {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i]._version() == versions_[i]) continue;
      refuse(unit_.tensors[i].name + " was changed in place by its block's function",
             "a function may only read parameters");
    }
  }

 private:
  const std::vector<at::Tensor>& parameters_;
  const Unit& unit_;
  std::vector<int64_t> versions_;
};

// See Note [Randomness is counter-based].
class KeyedRandomness {
 public:
  KeyedRandomness(const std::string& block, std::optional<uint64_t> key)
      : block_(block), has_key_(key), generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    saved_ = generator_.get_state();
    if (key) generator_.set_current_seed(*key);
  }
  ~KeyedRandomness() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(saved_);
  }
  KeyedRandomness(const KeyedRandomness&) = delete;
  KeyedRandomness& operator=(const KeyedRandomness&) = delete;

  void check() {
    if (has_key_) return;
    const std::lock_guard lock(generator_.mutex());
    const at::Tensor now = generator_.get_state();
    const auto num_bytes = static_cast<size_t>(saved_.numel());
    if (std::memcmp(now.const_data_ptr(), saved_.const_data_ptr(), num_bytes) == 0) return;
    refuse("block '" + block_ + "' draws random numbers, and nothing says which",
           "call the module's eval(), or train it in a CustomLoop, which gives every micro-batch "
           "numbers of its own");
  }

 private:
  const std::string& block_;
  bool has_key_;
  at::Generator generator_;
  at::Tensor saved_;
};

void check_buffers(const CustomBlock& block) {
  if (!block.module) return;
  for (const auto& buffer : block.module->named_buffers()) {
    refuse("block '" + block.name + "': " + buffer.key() +
               " is a buffer, which every rank would keep for itself and no checkpoint would hold",
           "normalize without running statistics (GroupNorm, LayerNorm, BatchNorm with "
           "track_running_stats(false)); keep constants as plain members");
  }
}

void check_parameter(const std::string& name, const at::Tensor& parameter) {
  if (parameter.scalar_type() == at::kFloat && parameter.device().is_cpu() &&
      parameter.numel() > 0) {
    return;
  }
  refuse(name + " must be fp32 on the CPU and hold something, found " + sizes_of(parameter) +
             " on " + parameter.device().str(),
         "precision is the loop's: parameters are its fp32 masters");
}

// How often each tensor was written.
std::vector<int64_t> versions_of(const at::Tensor& x, const TensorBatch& batch) {
  std::vector<int64_t> versions;
  if (x.defined()) versions.push_back(x._version());
  for (const at::Tensor& tensor : batch) {
    if (tensor.defined()) versions.push_back(tensor._version());
  }
  return versions;
}

// A module and all below it in eval mode while it lives.
class EvalMode {
 public:
  explicit EvalMode(const std::shared_ptr<torch::nn::Module>& module) {
    if (!module) return;
    for (const auto& each : module->modules()) modes_.emplace_back(each, each->is_training());
    module->eval();
  }
  ~EvalMode() {
    // Parents first: each sets those below it, too.
    for (const auto& [module, is_training] : modes_) module->train(is_training);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

UnitTensor place(std::string name, const at::Tensor& parameter, int64_t begin_elem) {
  return {.name = std::move(name),
          .shape = parameter.sizes().vec(),
          .begin_elem = begin_elem,
          .num_elems = parameter.numel()};
}

}  // namespace

ModuleUnit::ModuleUnit(CustomBlock block, DType dtype)
    : function_(std::move(block.function)), module_(std::move(block.module)), dtype_(dtype) {
  block.module = module_;
  if (block.name.empty() || block.name.find('/') != std::string::npos) {
    refuse("a block's name is '" + block.name + "'", "give it one, without slashes");
  }
  if (!function_) refuse("block '" + block.name + "' has no function", "give it one");
  if (dtype == DType::kFp16) {
    refuse("precision fp16 is not offered to custom blocks", "use fp32 or bf16");
  }
  check_buffers(block);
  unit_.name = block.name;
  if (!module_) return;
  int64_t num_frozen = 0;
  int64_t num_elems = 0;
  for (const at::Tensor& parameter : module_->parameters()) num_elems += parameter.numel();
  first_weights_.reserve(static_cast<size_t>(num_elems));
  for (const auto& item : module_->named_parameters()) {
    const std::string name = block.name + "." + item.key();
    check_parameter(name, item.value());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].is_same(item.value())) continue;
      refuse(unit_.tensors[i].name + " and " + name + " are one tensor",
             "register it once, and use it twice in the function");
    }
    parameters_.push_back(item.value());
    unit_.tensors.push_back(place(name, item.value(), unit_.num_elems));
    unit_.num_elems += item.value().numel();
    if (!item.value().requires_grad()) ++num_frozen;
    const at::Tensor values = item.value().detach().contiguous();
    const float* const begin = values.const_data_ptr<float>();
    first_weights_.insert(first_weights_.end(), begin, begin + values.numel());
  }
  is_frozen_ = num_frozen > 0;
  if (num_frozen > 0 && num_frozen < static_cast<int64_t>(parameters_.size())) {
    refuse("block '" + block.name + "' is frozen in part",
           "a unit is frozen as a whole: make a block of its own of what does not learn");
  }
  for (const at::Tensor& parameter : parameters_) parameter.set_data(at::empty({0}, at::kFloat));
}

at::Tensor ModuleUnit::cast(const at::Tensor& x) const {
  if (!x.defined() || !x.is_floating_point() || dtype_ == DType::kFp32) return x;
  return x.to(scalar_type(dtype_));
}

// The parameters must be lent.
at::Tensor ModuleUnit::run(const Call& call, const at::Tensor& x) const {
  KeyedRandomness randomness(unit_.name, call.random_key);
  const std::vector<int64_t> versions = versions_of(x, call.batch);
  at::Tensor y = function_(x, call.batch);
  randomness.check();
  if (versions_of(x, call.batch) != versions) {
    refuse("block '" + unit_.name + "' changes its input or the batch in place",
           "backward runs the function once more: it may only read what it gets");
  }
  if (!y.defined() || !y.is_floating_point()) {
    refuse("block '" + unit_.name + "' must return a tensor of a floating type, found " +
               (y.defined() ? sizes_of(y) : "none"),
           "what is not differentiated belongs into the batch");
  }
  return y;
}

void ModuleUnit::check_loss(const at::Tensor& loss) const {
  const bool is_number = loss.numel() == 1;
  if (is_number && (loss.scalar_type() == at::kFloat || loss.scalar_type() == at::kDouble)) return;
  refuse(
      "block '" + unit_.name +
          "' is the last: it must return the sum of the loss, one number in fp32 or fp64, found " +
          sizes_of(loss),
      is_number ? "compute the loss in fp32: logits.to(torch::kFloat)"
                : "end the model with a block that computes the loss, with reduction Sum");
}

at::Tensor ModuleUnit::forward(const Call& call, const at::Tensor& x) const {
  const at::NoGradGuard no_graph;
  const LentWeights lent(parameters_, unit_, call.params);
  // A function that returns a parameter, or a view of one, must not hand on what is about to go.
  at::Tensor y = run(call, cast(x));
  lent.check_unchanged();
  for (const at::Tensor& parameter : parameters_) {
    if (y.is_alias_of(parameter)) return y.clone();
  }
  return y;
}

at::Tensor ModuleUnit::evaluate(const Call& call, const at::Tensor& x) const {
  const EvalMode mode(module_);
  return forward(call, x);
}

ModuleUnit::Backward ModuleUnit::backward(const Call& call, const at::Tensor& x,
                                          const at::Tensor& dy, double loss_scale, float* gradients,
                                          bool wants_dx) const {
  const at::AutoGradMode with_graph(true);
  const LentWeights lent(parameters_, unit_, call.params);
  at::Tensor input = cast(x);
  const bool has_dx = wants_dx && input.defined();
  if (input.defined()) input = input.detach();
  if (has_dx) input.requires_grad_(true);
  const at::Tensor y = run(call, input);
  lent.check_unchanged();

  Backward result;
  if (!dy.defined()) {
    check_loss(y);
    result.loss_sum = y.item<double>();
  }
  std::vector<at::Tensor> wanted;
  if (gradients != nullptr) wanted = parameters_;
  if (has_dx) wanted.push_back(input);
  if (wanted.empty()) return result;
  if (!y.requires_grad()) {
    refuse(
        "block '" + unit_.name + "': its output depends neither on its parameters nor on its input",
        "do not detach, and run nothing under NoGradGuard");
  }
  const at::Tensor seed = dy.defined() ? dy.to(y.scalar_type()) : at::full_like(y, loss_scale);
  const std::vector<at::Tensor> found = torch::autograd::grad(
      {y}, wanted, {seed}, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  if (has_dx) {
    result.dx = found.back().defined() ? found.back().to(x.scalar_type()) : at::zeros_like(x);
  }
  for (size_t i = 0; gradients != nullptr && i < unit_.tensors.size(); ++i) {
    const UnitTensor& tensor = unit_.tensors[i];
    const at::Tensor target =
        at::from_blob(gradients + tensor.begin_elem, tensor.shape, at::kFloat);
    found[i].defined() ? target.copy_(found[i]) : target.zero_();
  }
  return result;
}

}  // namespace lockstep::runtime
