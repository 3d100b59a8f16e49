// Where a run is told of: what becomes of other tools' trackers.
#pragma once

#include "operator/convert/table.h"

namespace lockstep::convert {

// A tracker by the name that Transformers' report_to has for it: "tensorboard", "mlflow", "wandb".
// MLflow's address is what only the user's environment knows, see mlflow_variables().
Verdict take_named_tracker(const nlohmann::json& value, Draft& draft);

// A tracker without a twin: files of the output are what it can be fed from.
Verdict change_tracker(Draft& draft);

// The variables that MLflow's client reads, as keys of a document whose `log` names the tracker.
Table mlflow_variables();

}  // namespace lockstep::convert
