#include "tests/faults/rank_forks.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/paths.h"

namespace lockstep::faults {
namespace {

void require(bool is_fine, const char* what) {
  if (!is_fine) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

RankForks::RankForks() {
  require(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "prctl");
  std::array<int, 2> requests{};
  std::array<int, 2> answers{};
  require(pipe2(requests.data(), O_CLOEXEC) == 0, "pipe2");
  require(pipe2(answers.data(), O_CLOEXEC) == 0, "pipe2");
  std::string program = support::kFaultyRuntime;
  std::string variable = "LOCKSTEP_TEST_FORKS=1";
  std::array<char*, 2> arguments = {program.data(), nullptr};
  std::array<char*, 2> environment = {variable.data(), nullptr};
  server_ = fork();
  require(server_ >= 0, "fork");
  if (server_ == 0) {
    dup2(requests[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    execve(program.c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  close(requests[0]);
  close(answers[1]);
  requests_ = requests[1];
  answers_ = answers[0];
}

RankForks::~RankForks() {
  close(requests_);  // which ends the server
  close(answers_);
  waitpid(server_, nullptr, 0);
}

pid_t RankForks::launch(const std::map<std::string, std::string>& env, const std::string& log) {
  const std::string line = nlohmann::json({{"env", env}, {"log", log}}).dump() + "\n";
  const std::lock_guard lock(mutex_);
  // A pipe takes as much at once as it holds, and a request is far smaller.
  const ssize_t written = write(requests_, line.data(), line.size());
  require(written == static_cast<ssize_t>(line.size()), "asking for a rank");
  std::string answer;
  for (char digit = 0; read(answers_, &digit, 1) == 1 && digit != '\n';) answer += digit;
  if (answer.empty()) throw std::runtime_error("no rank was forked");
  return std::stoi(answer);
}

}  // namespace lockstep::faults
