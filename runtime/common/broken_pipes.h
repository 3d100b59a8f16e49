// What a write to a peer that is gone does to the process.
#pragma once

namespace lockstep::common {

// Such a write is an error (EPIPE) from now on and not the process's death: ignores SIGPIPE if it
// has its default action. For libraries that write without MSG_NOSIGNAL: OpenSSL, c10d's store.
void ignore_broken_pipes();

}  // namespace lockstep::common
