// `lockstep-runtime chat`: a dialogue in the terminal.
#pragma once

#include <string>

#include "runtime/train/dialogue.h"

namespace lockstep::runtime {

struct ChatVerbOptions {
  std::string model;  // as load_speaking_model() takes it
  std::string base;
  DialogueOptions dialogue;
};

// Reads lines of standard input and answers each on standard output, as it is made; all else goes
// to standard error. On a terminal it prompts; SIGINT ends the answer under way, or the line being
// written, and the end of the input (Ctrl-D) ends the dialogue. From now on SIGINT does nothing
// else in this process. Blank lines are passed over. Returns the exit status.
// Throws RunError as load_speaking_model() and Dialogue; where the input is a terminal a line that
// Dialogue::ask() refuses is told instead, and the dialogue goes on.
int chat_verb(const ChatVerbOptions& options);

}  // namespace lockstep::runtime
