#include "runtime/train/chat_verb.h"

#include <atomic>
#include <cerrno>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

// What the signal handler writes to. The descriptor wakes a wait whichever thread has the signal.
std::atomic<bool> interrupted = false;
std::atomic<int> wake_fd = -1;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void note_interrupt(int) {
  const int error = errno;
  interrupted = true;
  eventfd_write(wake_fd, 1);  // fails only where it is readable as it is
  errno = error;
}

void watch_for_interrupts() {
  if (wake_fd < 0) wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;  // a write that is cut short would fail std::cout for good
  sigaction(SIGINT, &action, nullptr);
}

// False if SIGINT came first, or has come since the last answer.
bool wait_for_input() {
  pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                    {.fd = wake_fd, .events = POLLIN, .revents = 0}};
  while (!interrupted.exchange(false)) {
    if (poll(waits, 2, -1) < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    eventfd_t count = 0;
    eventfd_read(wake_fd, &count);  // before `interrupted` is looked at: no signal is missed
    if (waits[0].revents != 0 && !interrupted) return true;
  }
  return false;
}

// Lines of standard input, by read() alone: a signal ends a wait, which std::cin would hide.
class Lines {
 public:
  enum class End { kLine, kInterrupted, kEnd };

  // The next line, without its end; the last one need not have any.
  End next(std::string& line) {
    while (true) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return End::kLine;
      }
      if (!wait_for_input()) {
        buffer_.clear();
        return End::kInterrupted;
      }
      char bytes[4096];
      const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (count <= 0) break;
      buffer_.append(bytes, static_cast<std::size_t>(count));
    }
    if (buffer_.empty()) return End::kEnd;
    line.swap(buffer_);
    buffer_.clear();
    return End::kLine;
  }

 private:
  std::string buffer_;
};

const char* note_on(WritingEnd end) {
  switch (end) {
    case WritingEnd::kText:
      return "";
    case WritingEnd::kCount:
      return "(ended after --max-new-tokens)\n";
    case WritingEnd::kRoom:
      return "(ended: no more room, see --context)\n";
    case WritingEnd::kStopped:
      return "(stopped)\n";
  }
  return "";
}

void answer(Dialogue& dialogue, const std::string& line) {
  const WritingEnd end = dialogue.ask(line, [](const std::string& piece) {
    std::cout << piece << std::flush;
    return !interrupted;
  });
  interrupted = false;
  std::cout << "\n" << std::flush;
  std::cerr << note_on(end);
}

}  // namespace

int chat_verb(const ChatVerbOptions& options) {
  const SpeakingModel model = load_speaking_model(options.model, options.base);
  Dialogue dialogue(model, options.dialogue);
  watch_for_interrupts();
  const bool is_terminal = isatty(STDIN_FILENO) == 1;
  if (is_terminal) std::cerr << "Ctrl-C stops an answer, Ctrl-D leaves.\n";
  Lines lines;
  std::string line;
  while (true) {
    if (is_terminal) std::cerr << "> " << std::flush;
    const Lines::End end = lines.next(line);
    if (end != Lines::End::kLine && is_terminal) std::cerr << "\n";
    if (end == Lines::End::kEnd) return 0;
    if (end == Lines::End::kInterrupted) continue;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      answer(dialogue, line);
    } catch (const RunError& error) {
      if (!is_terminal) throw;
      std::cerr << error.failure().message << "\n";
      if (!error.failure().hint.empty()) std::cerr << "hint: " << error.failure().hint << "\n";
    }
  }
}

}  // namespace lockstep::runtime
