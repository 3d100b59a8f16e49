// What the verbs that speak to a cluster share: where it is, who asks, and what a refusal means.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <variant>

#include "operator/api/training_job.h"
#include "operator/kube/client.h"
#include "runtime/common/result.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// kubectl's flags.
struct ClusterArguments {
  std::string kubeconfig;
  std::string context;
  std::string ns;  // empty: the context's
};
void add_cluster_arguments(CLI::App& verb, ClusterArguments& arguments);

// What a verb works on; borrows all of it.
struct Session {
  kube::Client& client;
  std::string ns;
  std::string server;  // its URL
  std::ostream& out;   // results
  std::ostream& err;   // talk
};

// Connects as `arguments` say and lets `act` speak to standard output and error. Returns its exit
// status, or kUnreachable if the kubeconfig names no cluster that can be used.
int run_on_cluster(const ClusterArguments& arguments,
                   const std::function<int(const Session&)>& act);

// What was asked for when the server refused.
struct Asked {
  std::string verb;  // "get", "create", ...: as in a Role
  std::string name;  // empty: all of them
  std::string plural = "trainingjobs";
};

struct Complaint {
  int status = 0;    // exit_status.h
  std::string text;  // one line, with what to do in brackets
};
Complaint explain_refusal(const kube::ApiError& error, const Asked& asked, const std::string& ns,
                          const std::string& server);
// Prints the complaint and returns its exit status.
int complain(const Session& session, const kube::ApiError& error, const Asked& asked);

// The job of that name; else the exit status, once the trouble is told.
std::variant<api::TrainingJob, int> read_job(const Session& session, const std::string& name);

kube::ResourcePath job_path(const std::string& ns, const std::string& name);
kube::ResourcePath pods_path(const std::string& ns);

// -o of a verb.
enum class OutputForm { kText, kWide, kName, kJson, kYaml };
// `wide`: wide and name are offered too.
void add_output_form(CLI::App& verb, OutputForm& form, bool wide);
// An object for people and programs: without metadata.managedFields, as kubectl prints it.
std::string print_object(nlohmann::json object, OutputForm form);

}  // namespace lockstep::cli
