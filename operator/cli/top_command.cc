#include "operator/cli/top_command.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <stop_token>
#include <thread>

#include <unistd.h>

#include "operator/api/codec.h"
#include "operator/cli/cluster_session.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/live_screen.h"
#include "operator/cli/top_view.h"
#include "operator/cli/verb.h"
#include "operator/local/output_lock.h"
#include "operator/runs/run_files.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRuns = "runs";
constexpr int kLookForKeysMs = 20;

struct TopArguments {
  std::vector<std::string> folders;  // none: those in runs/
  ClusterArguments cluster;
  bool asks_cluster = false;
  bool all_namespaces = false;
  bool once = false;
  double every_seconds = 2;
};

// Runs in runs/, by name.
std::vector<std::string> folders_here() {
  std::vector<std::string> folders;
  std::error_code unseen;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRuns, unseen)) {
    if (entry.is_directory(unseen)) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// A folder of runs/ that no run has left is passed over; one that was named is trouble.
void add_runs(const TopArguments& arguments, TopPage& page) {
  const bool is_named = !arguments.folders.empty();
  for (const std::string& folder : is_named ? arguments.folders : folders_here()) {
    const common::Result<runs::RunFiles> files = runs::read_run_files(folder);
    if (files) {
      page.rows.push_back(row_of_run(runs::parse_run(*files), local::is_at_work(folder)));
    } else if (is_named) {
      page.troubles.push_back(files.error().message);
    }
  }
}

// Losses of jobs as they were seen: a cluster tells only the newest.
using History = std::map<std::string, std::vector<double>>;

void remember(const api::TrainingJob& job, const std::string& name, History& history) {
  if (!job.status.progress || job.status.progress->loss.empty()) return;
  const double loss = std::strtod(job.status.progress->loss.c_str(), nullptr);
  std::vector<double>& losses = history[name];
  if (losses.empty() || losses.back() != loss) losses.push_back(loss);
}

// Exit status of the look; what is wrong is trouble of the page. Ends early once `stop` is
// requested.
int add_jobs(const TopArguments& arguments, const Session& session, History& history,
             const std::stop_token& stop, TopPage& page) {
  const std::string ns = arguments.all_namespaces ? "" : session.ns;
  const auto answer = session.client.list(job_path(ns, ""), {}, stop);
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    const Complaint complaint =
        explain_refusal(*error, {.verb = "list", .name = ""}, session.ns, session.server);
    page.troubles.push_back(complaint.text);
    return complaint.status;
  }
  for (json object : std::get<json>(answer).at("items")) {
    object["apiVersion"] = api::kApiVersion;  // a list leaves them out of its items
    object["kind"] = api::kKind;
    common::Result<api::TrainingJob> job = api::decode_job(object);
    if (!job) {
      page.troubles.push_back(job.error().message);
      continue;
    }
    TopRow row;
    row.job = std::move(job).value();
    row.job.meta.name.insert(0, row.job.meta.ns + "/");
    remember(row.job, row.job.meta.name, history);
    row.losses = history[row.job.meta.name];
    page.rows.push_back(std::move(row));
  }
  return kOk;
}

// One look; its exit status. Ends early once `stop` is requested.
using Look = std::function<int(const std::stop_token& stop, TopPage& page)>;

// A look on a thread of its own, which hangs as long as a server does. The destructor gives it up.
class Looking {
 public:
  explicit Looking(const Look& look)
      : thread_([this, &look](const std::stop_token& stop) {
          try {
            look(stop, page_);
          } catch (...) {
            trouble_ = std::current_exception();
          }
          is_done_ = true;
        }) {}

  bool is_done() const { return is_done_; }
  // Once it is done.
  const TopPage& page() const {
    if (trouble_) std::rethrow_exception(trouble_);
    return page_;
  }

 private:
  TopPage page_;
  std::exception_ptr trouble_;
  std::atomic<bool> is_done_ = false;
  std::jthread thread_;  // the last member: it uses the others
};

int show_once(const Look& look) {
  TopPage page;
  const int status = look({}, page);
  TopLayout layout;
  layout.now = api::wall_clock();
  std::cout << render_top(page, layout);
  if (status != kOk) return status;
  return page.troubles.empty() ? kOk : kInvalidFile;
}

int show_live(const Look& look, double every_seconds) {
  const LiveScreen screen;
  screen.show("looking; q ends it\n");
  while (true) {
    const Looking looking(look);
    while (!looking.is_done()) {
      if (screen.should_end(kLookForKeysMs)) return kOk;
    }
    screen.show(render_top(looking.page(), {.width = screen.width(),
                                            .height = screen.height(),
                                            .has_curves = true,
                                            .now = api::wall_clock()}));
    if (screen.should_end(static_cast<int>(1000 * every_seconds))) return kOk;
  }
}

int show(const TopArguments& arguments, const Look& look) {
  const bool is_live = !arguments.once && isatty(STDOUT_FILENO) == 1;
  return is_live ? show_live(look, arguments.every_seconds) : show_once(look);
}

int top(const TopArguments& arguments) {
  if (!arguments.asks_cluster) {
    if (arguments.folders.empty() && folders_here().empty()) {
      std::cerr << "error: there are no runs in " << kRuns
                << " (name folders of runs, or look at a cluster with --cluster)\n";
      return kInvalidFile;
    }
    return show(arguments, [&](const std::stop_token& /*stop*/, TopPage& page) {
      add_runs(arguments, page);
      return kOk;
    });
  }
  return run_on_cluster(arguments.cluster, [&](const Session& session) {
    History history;
    return show(arguments, [&](const std::stop_token& stop, TopPage& page) {
      const int status = add_jobs(arguments, session, history, stop, page);
      if (!arguments.folders.empty()) add_runs(arguments, page);
      return status;
    });
  });
}

}  // namespace

void add_top(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("top", "watch runs of this machine, or jobs of a cluster");
  verb.group(kLookGroup);
  TopArguments& arguments = run_when_parsed(verb, status, top);
  verb.add_option("run", arguments.folders, "output folders; default those in runs/")
      ->type_name("FOLDER");
  CLI::Option* const cluster =
      verb.add_flag("--cluster", arguments.asks_cluster, "jobs of a cluster, besides the folders");
  verb.add_flag("-A,--all-namespaces", arguments.all_namespaces, "jobs of all namespaces")
      ->needs(cluster);
  add_cluster_arguments(verb, arguments.cluster);
  verb.add_option("--every", arguments.every_seconds, "seconds between two looks; default 2")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0));
  verb.add_flag("--once", arguments.once, "one look, as where the output is no terminal");
  verb.footer("q or Ctrl-C ends it. What was on the terminal before comes back.");
}

}  // namespace lockstep::cli
