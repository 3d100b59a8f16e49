// What AITraining's keys say of the task, for rows that depend on it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "operator/convert/draft.h"

namespace lockstep::convert {

// A parameter wherever it stands: `params`, `data`, `hub`, or the top level; null if nowhere.
const nlohmann::json* parameter(const Draft& draft, const std::string& name);

// Whether it is given and not off.
bool is_on(const Draft& draft, const std::string& name);

// What a trainer is called here; as it is if Lockstep has no such task.
std::string task_of(std::string trainer);

// What `task` (llm-sft) or the trainer of a plain task (llm) says; its default says nothing.
std::string task_in(const Draft& draft);

// Whether that task learns from conversations, or from pairs of answers.
bool has_conversations(const Draft& draft);
bool has_pairs(const Draft& draft);

}  // namespace lockstep::convert
