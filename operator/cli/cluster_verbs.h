// The verbs that speak to a cluster, a file each; this is where they are listed.
#pragma once

#include <string>
#include <vector>

#include "operator/cli/cluster_session.h"

namespace lockstep::cli {

inline constexpr const char* kClusterGroup = "Jobs of a cluster";

// How users call this program: "kubectl lockstep" if kubectl runs it as its plugin (argv[0] is
// kubectl-lockstep), else "lockstep".
std::string command_name(const std::string& program);

// submit, get, describe, logs, events, suspend, resume, scale, delete.
void add_cluster_verbs(CLI::App& app, int& status);

// The same one by one. Each *_jobs() or *_job() below carries a verb out on a session and returns
// an exit status; with them a verb can be tested on any API server.

struct GetArguments {
  ClusterArguments cluster;
  std::vector<std::string> names;
  OutputForm form = OutputForm::kText;
  bool all_namespaces = false;
  bool watch = false;
  std::string selector;
};
int get_jobs(const GetArguments& arguments, const Session& session);
void add_get(CLI::App& app, int& status);

struct SubmitArguments {
  ClusterArguments cluster;
  std::string file;
  std::vector<std::string> sets;
  OutputForm form = OutputForm::kText;
  bool watch = false;
};
int submit_job(const SubmitArguments& arguments, const Session& session);
void add_submit(CLI::App& app, int& status);

struct JobArguments {
  ClusterArguments cluster;
  std::string name;
  OutputForm form = OutputForm::kText;
};
int describe_job(const JobArguments& arguments, const Session& session);
void add_describe(CLI::App& app, int& status);

int list_events(const JobArguments& arguments, const Session& session);
void add_events(CLI::App& app, int& status);

struct LogsArguments {
  ClusterArguments cluster;
  std::string name;
  bool all_ranks = false;
  int64_t rank = -1;     // < 0: the first failing rank, or rank 0
  int64_t attempt = -1;  // < 0: the newest that has pods
  int64_t tail = -1;     // < 0: all lines
  bool follow = false;   // until the job has ended
};
int print_logs(const LogsArguments& arguments, const Session& session);
void add_logs(CLI::App& app, int& status);

struct ChangeArguments {
  ClusterArguments cluster;
  std::vector<std::string> names;
  OutputForm form = OutputForm::kText;
  int64_t ranks = 0;  // of scale
};
int suspend_jobs(const ChangeArguments& arguments, const Session& session);
int resume_jobs(const ChangeArguments& arguments, const Session& session);
int scale_jobs(const ChangeArguments& arguments, const Session& session);
void add_suspend(CLI::App& app, int& status);
void add_resume(CLI::App& app, int& status);
void add_scale(CLI::App& app, int& status);

int delete_jobs(const ChangeArguments& arguments, const Session& session);
void add_delete(CLI::App& app, int& status);

// Prints the job's row whenever it changes until `is_enough` says so of it; kNoSuchJob if it is
// deleted meanwhile. Blocks.
int follow_job(const Session& session, const std::string& name,
               const std::function<bool(const nlohmann::json& job)>& is_enough);

}  // namespace lockstep::cli
