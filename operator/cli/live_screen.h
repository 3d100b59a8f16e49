// A terminal's second screen, which leaves the first as it was.
#pragma once

#include <string>

#include <termios.h>

namespace lockstep::cli {

// From construction to destruction the terminal shows what show() says; keys come one by one and
// are not echoed. Ctrl-C and SIGTERM end the wait of should_end(). Ctrl-Z stops this process with
// the terminal as it was, and `fg` shows the screen again.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // In place of what was shown, without a flicker.
  void show(const std::string& text) const;

  // Waits; true as soon as q, Ctrl-C, Ctrl-\\ or SIGTERM came, or the keyboard is gone; false after
  // `milliseconds`.
  bool should_end(int milliseconds) const;

  // As the terminal says now; 80 x 24 if it does not.
  int width() const;
  int height() const;

 private:
  void enter() const;
  void leave() const;

  const int stop_;
  termios before_ = {}, raw_ = {};
  bool has_keys_ = false;
};

}  // namespace lockstep::cli
