// The model that another one learns from: frozen, and run forward only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/collective.h"
#include "runtime/common/train_config.h"
#include "runtime/kernels/float_buffer.h"
#include "runtime/model/decoder.h"
#include "runtime/model/distillation.h"
#include "runtime/parallel/parallelism.h"

namespace lockstep::runtime {

// Note [The teacher]
// What a teacher says is [rows, vocab] of every micro-batch, far more than could be kept as dpo
// keeps its reference. So it runs on each micro-batch before the student does, and tells its logits
// chunk by chunk while the student's head computes the loss: no more than a chunk of them is ever
// in memory. Its weights are base units (parallel/unit_storage.h): whole on every rank, or under
// zero3 a slice that is gathered as the student's is, in the type of computation, without gradient,
// moments or a place in checkpoints.
class Teacher {
 public:
  // `collective` must outlive the object.
  //   train:    of the student; distill.model is the teacher's.
  //   strategy: of the student, not kAuto.
  // Every rank must call it, and fill() before the first read(). Throws as Decoder() and
  // make_parallelism().
  Teacher(const common::TrainConfig& train, common::Strategy strategy, Collective& collective);

  const std::vector<Unit>& units() const { return units_; }
  // Fills its weights, each rank its own part, as Parallelism::fill_base().
  void fill(const FillElems& fill_elems);

  // Runs up to its head on a micro-batch. What it returns asks this object, until rest(). Every
  // rank must call it, in the same order. Blocks and throws as Parallelism::unshard().
  Distillation read(const MicroBatchIo& io);
  void rest();

 private:
  std::vector<Unit> units_;
  DistillFactors factors_;
  Decoder decoder_;
  std::unique_ptr<Parallelism> parallelism_;
  ConstValues head_;    // between read() and rest()
  ConstValues tied_;    // the same, if its head borrows the embedding
  FloatBuffer logits_;  // [rows of a chunk, vocab]
};

}  // namespace lockstep::runtime
