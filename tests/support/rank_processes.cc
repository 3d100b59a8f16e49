#include "tests/support/rank_processes.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::support {
namespace {

[[noreturn]] void raise_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) raise_errno("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Gang::Gang(const GangOptions& options)
    : prefix_(options.folder + "/attempt-" + std::to_string(options.attempt) + "-") {
  std::filesystem::create_directories(options.folder);
  const std::string job_path = prefix_ + "job.json";
  write_text(job_path, options.job.dump());
  const std::string port = std::to_string(port_.number());
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    std::map<std::string, std::string> env = {
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(options.num_ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", port},
        {"LOCKSTEP_JOB", job_path},
        {"LOCKSTEP_ATTEMPT", std::to_string(options.attempt)},
        {"LOCKSTEP_OUTPUT", options.output},
        {"LOCKSTEP_LISTEN_ADDRESS", "127.0.0.1"},
        {"LOCKSTEP_METRICS_PORT", "0"},
        {"LOCKSTEP_TERMINATION_MESSAGE", file(rank, "termination")}};
    for (const auto& [name, value] : options.env) env[name] = value;
    if (const auto own = options.rank_env.find(rank); own != options.rank_env.end()) {
      for (const auto& [name, value] : own->second) env[name] = value;
    }
    env["RUNTIME"] = options.runtime;
    pids_.push_back(options.launch ? options.launch(env, file(rank, "log")) : spawn(rank, env));
  }
  exit_codes_.resize(pids_.size());
}

Gang::~Gang() {
  for (const pid_t pid : pids_) {
    if (pid != 0) kill(pid, SIGKILL);
  }
  for (const pid_t pid : pids_) {
    if (pid != 0) waitpid(pid, nullptr, 0);
  }
}

std::string Gang::file(int rank, const std::string& kind) const {
  return prefix_ + "rank-" + std::to_string(rank) + "." + kind;
}

pid_t Gang::spawn(int rank, const std::map<std::string, std::string>& env) {
  std::vector<std::string> lines;
  lines.reserve(env.size() + 1);
  for (const auto& [name, value] : env) lines.push_back(name + "=" + value);
  if (const char* const path = std::getenv("PATH")) lines.push_back(std::string("PATH=") + path);
  std::vector<char*> environment;
  environment.reserve(lines.size() + 1);
  for (std::string& line : lines) environment.push_back(line.data());
  environment.push_back(nullptr);
  std::string program = env.at("RUNTIME");
  std::array<char*, 2> arguments = {program.data(), nullptr};
  const std::string log_path = file(rank, "log");

  const pid_t pid = fork();
  if (pid < 0) raise_errno("fork");
  if (pid == 0) {
    const int log_file = open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(log_file, STDOUT_FILENO);
    dup2(log_file, STDERR_FILENO);
    execve(program.c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  return pid;
}

void Gang::send(int rank, int signal_number) {
  const pid_t pid = pids_.at(static_cast<std::size_t>(rank));
  if (pid != 0) kill(pid, signal_number);
}

std::vector<int> Gang::wait() {
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] == 0) continue;
    int status = 0;
    if (waitpid(pids_[rank], &status, 0) != pids_[rank]) raise_errno("waitpid");
    exit_codes_[rank] = exit_code_of(status);
    pids_[rank] = 0;
  }
  return exit_codes_;
}

bool Gang::reap_finished() {
  bool all_ended = true;
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] == 0) continue;
    int status = 0;
    if (waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]) {
      exit_codes_[rank] = exit_code_of(status);
      pids_[rank] = 0;
    } else {
      all_ended = false;
    }
  }
  return all_ended;
}

bool Gang::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (reap_finished()) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::string Gang::log(int rank) const {
  return read_text(file(rank, "log"));
}

std::optional<common::TerminationMessage> Gang::last_words(int rank) const {
  return common::decode_termination_message(read_text(file(rank, "termination")));
}

}  // namespace lockstep::support
