#include "operator/cli/live_screen.h"

#include <array>
#include <chrono>
#include <csignal>
#include <iostream>
#include <sstream>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "operator/cli/stop_descriptor.h"

namespace lockstep::cli {
namespace {

// Of ECMA-48 and xterm: the alternate screen, without a cursor, and back.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kClearLine = "\x1b[K";
constexpr const char* kClearBelow = "\x1b[J";

constexpr char kCtrlZ = '\x1a';
constexpr char kCtrlBackslash = '\x1c';

winsize size_of_screen() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

}  // namespace

LiveScreen::LiveScreen() : stop_(stop_descriptor()) {
  has_keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  raw_ = before_;
  raw_.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // Signals that would leave the terminal as it is come as keys.
  raw_.c_cc[VSUSP] = raw_.c_cc[VQUIT] = _POSIX_VDISABLE;
  enter();
}

LiveScreen::~LiveScreen() {
  leave();
}

void LiveScreen::enter() const {
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &raw_);
  std::cout << kEnter << std::flush;
}

void LiveScreen::leave() const {
  std::cout << kLeave << std::flush;
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void LiveScreen::show(const std::string& text) const {
  std::string frame = kHome;
  std::istringstream lines(text);
  bool is_first = true;
  for (std::string line; std::getline(lines, line); is_first = false) {
    frame.append(is_first ? "" : "\r\n").append(line).append(kClearLine);
  }
  std::cout << frame << kClearBelow << std::flush;
}

bool LiveScreen::should_end(int milliseconds) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    // A negative descriptor is passed over.
    std::array<pollfd, 2> awaited = {
        {{.fd = stop_, .events = POLLIN, .revents = 0},
         {.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
    if (poll(awaited.data(), awaited.size(), static_cast<int>(left)) < 0) continue;
    if (awaited[0].revents != 0) return true;
    if (awaited[1].revents == 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == kCtrlBackslash) return true;
    if (key != kCtrlZ) continue;
    leave();
    raise(SIGSTOP);  // until the shell's `fg`
    enter();
    return false;  // show it all again
  }
}

int LiveScreen::width() const {
  return size_of_screen().ws_col;
}

int LiveScreen::height() const {
  return size_of_screen().ws_row;
}

}  // namespace lockstep::cli
