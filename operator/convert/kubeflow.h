// Kubeflow's PyTorchJob and TrainJob, as a TrainingJob with a command of its own.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// What becomes of every key of a PyTorchJob (kubeflow.org/v1), whose container `pytorch` stands by
// its name: "spec.pytorchReplicaSpecs.Worker.template.spec.containers.pytorch.image"; other
// containers are in "sidecars" beside it.
// Source of keys: kubeflow/training-operator, pkg/apis/kubeflow.org/v1.
const Table& pytorchjob_table();

// What becomes of every key of a TrainJob (trainer.kubeflow.org).
// Source of keys: kubeflow/trainer, pkg/apis/trainer/v1alpha1/trainjob_types.go.
const Table& trainjob_table();

// Rows of metadata, apiVersion, kind and status: alike in both.
Table object_rows();

// spec.suspend, which Kueue flips there; here it holds the pods of a job with its label.
std::optional<Verdict> take_suspend(const nlohmann::json& value, Draft& draft);

// A whole manifest. Never throws.
Conversion convert_pytorchjob(const common::Document& document);
Conversion convert_trainjob(const common::Document& document);

}  // namespace lockstep::convert
