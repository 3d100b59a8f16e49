#include "operator/cli/init_command.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <iostream>

#include <poll.h>
#include <unistd.h>

#include "operator/cli/exit_status.h"
#include "operator/cli/stop_descriptor.h"
#include "operator/cli/verb.h"
#include "operator/cli/whole_file.h"
#include "operator/wizard/interview.h"
#include "operator/wizard/job_text.h"
#include "runtime/common/model_folder.h"
#include "runtime/common/suggest.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using wizard::Answers;

struct InitArguments {
  std::string file = "job.yaml";  // "-": standard output
  Answers answers;                // by flags
  bool overwrite = false;
  bool yes = false;  // ask nothing
};

// Lines from a terminal until its end, Ctrl-C or SIGTERM.
class TerminalLines {
 public:
  explicit TerminalLines(int stop) : stop_(stop) {}

  std::optional<std::string> next() {
    while (true) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      if (!read_more()) return std::nullopt;
    }
  }

 private:
  bool read_more() {
    std::array<pollfd, 2> awaited = {{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                      {.fd = stop_, .events = POLLIN, .revents = 0}}};
    if (poll(awaited.data(), awaited.size(), -1) < 0) return errno == EINTR;
    if (awaited[1].revents != 0) return false;
    std::array<char, 4096> bytes{};
    const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count <= 0) return count < 0 && errno == EINTR;
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  const int stop_;  // stop_descriptor()
  std::string buffer_;
};

wizard::Checks checks_for(const std::string& file) {
  return {.has_tokenizer =
              [](const std::string& folder) { return common::find_tokenizer(folder).has_value(); },
          .check =
              [file](const std::string& text) {
                api::Manifest manifest = api::parse_manifest(text, {.file_name = file});
                check_against_here(manifest, {}, MissingInputs::kWarn);
                return manifest.problems;
              }};
}

// Nothing: the conversation was broken off.
std::optional<Answers> ask(InitArguments& arguments, const wizard::Checks& checks, int stop) {
  TerminalLines lines(stop);
  const wizard::Talk talk{.ask =
                              [&lines](const std::string& prompt) {
                                std::cerr << prompt << std::flush;
                                std::optional<std::string> line = lines.next();
                                if (!line) std::cerr << "\n";
                                return line;
                              },
                          .tell = [](const std::string& line) { std::cerr << line << "\n"; }};
  if (!arguments.overwrite && fs::exists(arguments.file)) {
    const std::optional<std::string> answer =
        talk.ask(arguments.file + " is there already. Replace it (yes | no) [no]: ");
    if (!answer || !(*answer == "yes" || *answer == "y")) return std::nullopt;
    arguments.overwrite = true;
  }
  std::cerr << "Enter takes what stands in brackets; Ctrl-D writes nothing.\n";
  return wizard::interview(arguments.answers, talk, checks);
}

// Exit status of flags that do not make a manifest by themselves; kOk if they do.
int check_flags(const Answers& answers) {
  for (const wizard::TopicRow& row : wizard::topics()) {
    if (answers.given.contains(row.topic) && !wizard::question_of(row.topic, answers)) {
      std::cerr << "error: " << row.flag
                << " is about a model's folder, which --model does not name\n";
      return kUsage;
    }
  }
  const std::vector<std::string> missing = wizard::unanswered(answers);
  if (missing.empty()) return kOk;
  std::cerr << "error: without questions " << common::join(missing)
            << " must be given; see lockstep init --help\n";
  return kUsage;
}

int write(const InitArguments& arguments, const Answers& answers, const wizard::Checks& checks) {
  const std::string text = wizard::job_text(answers);
  const common::Problems problems = checks.check(text);
  const bool is_printed = arguments.file == "-";
  print_problems(problems, is_printed ? "manifest" : arguments.file);
  if (common::has_errors(problems)) {
    std::cerr << "nothing was written\n";
    return kInvalidFile;
  }
  if (is_printed) {
    std::cout << text;
    return kOk;
  }
  const common::Result<void> written = write_whole_file(
      arguments.file, text, arguments.overwrite ? Existing::kReplace : Existing::kKeep);
  if (!written) {
    std::cerr << "error: " << written.error().message << " (" << written.error().hint << ")\n";
    return kFailed;
  }
  std::cout << arguments.file << "\n";
  std::cerr << "next: lockstep validate " << arguments.file << ", then lockstep run "
            << arguments.file << "\n";
  return kOk;
}

int init(const InitArguments& given) {
  InitArguments arguments = given;
  const wizard::Checks checks = checks_for(arguments.file);
  const int stop = stop_descriptor();  // so that Ctrl-C never leaves half of a file
  const bool asks = !arguments.yes && isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  if (asks) {
    const std::optional<Answers> answers = ask(arguments, checks, stop);
    if (answers) return write(arguments, *answers, checks);
    std::cerr << "nothing was written\n";
    return kSuspended;
  }
  if (const int wrong = check_flags(arguments.answers); wrong != kOk) return wrong;
  return write(arguments, wizard::with_facts(arguments.answers, checks), checks);
}

}  // namespace

void add_init(CLI::App& app, int& status) {
  CLI::App& verb = *app.add_subcommand("init", "ask a few questions and write a manifest");
  verb.group(kPrepareGroup);
  InitArguments& arguments = run_when_parsed(verb, status, init);
  verb.add_option("file", arguments.file, "to write; default job.yaml, - is standard output")
      ->type_name("FILE");
  for (const wizard::TopicRow& row : wizard::topics()) {
    verb.add_option_function<std::string>(
            row.flag,
            [&arguments, topic = row.topic](const std::string& value) {
              arguments.answers.given[topic] = value;
            },
            row.help)
        ->type_name("ANSWER");
  }
  verb.add_flag("--overwrite", arguments.overwrite, "replace the file if it is there");
  verb.add_flag("-y,--yes", arguments.yes, "ask nothing: defaults for all that no flag answers");
  verb.footer(
      "What a flag answers is not asked; without a terminal nothing is. Answers are checked as\n"
      "lockstep validate does, and asked again with what is wrong. Exit status: 0 written; 2 an\n"
      "answer is missing; 3 an answer is wrong; 130 broken off.");
}

}  // namespace lockstep::cli
