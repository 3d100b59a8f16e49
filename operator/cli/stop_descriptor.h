// Ctrl-C and SIGTERM as news to wait for, in place of an end.
#pragma once

namespace lockstep::cli {

// Blocks SIGINT and SIGTERM in this thread, and in those it starts afterwards; returns a descriptor
// that is readable once one came. It is never closed.
int stop_descriptor();

}  // namespace lockstep::cli
