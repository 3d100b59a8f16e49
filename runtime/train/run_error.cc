#include "runtime/train/run_error.h"

#include <new>
#include <string_view>

#include "runtime/comm/collective.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/offload/swap_file.h"

namespace lockstep::runtime {

using common::ExitCode;

namespace {

// What helps in most cases, for errors that bring no hint of their own.
std::string usual_hint(ExitCode code) {
  switch (code) {
    case ExitCode::kInvalidConfig:
      return "correct this field; `lockstep validate FILE` shows all problems at once";
    case ExitCode::kInputNotFound:
      return "check the path, and that it is mounted on every rank";
    case ExitCode::kInputUnavailable:
      return "start it again once the hub can be reached";
    case ExitCode::kInvalidData:
      return "check what train.data.train names";
    case ExitCode::kOutputUnwritable:
      return "choose an output folder that can be written, on a disk with free space";
    case ExitCode::kPortInUse:
      return "stop the other process, or choose another port";
    case ExitCode::kInternal:
      return "start it again; if it stays, please report this with the rank's log";
    default:
      return "";
  }
}

}  // namespace

RunFailure to_failure(ExitCode code, const common::Error& error) {
  return {.code = code,
          .message = error.message,
          .hint = error.hint.empty() ? usual_hint(code) : error.hint};
}

RunFailure verdict_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RunError& e) {
    return e.failure();
  } catch (const PeerLostError& e) {
    return {ExitCode::kPeerLost, e.what(), "the cause is in another rank's log"};
  } catch (const CollectiveTimeoutError& e) {
    return {ExitCode::kCollectiveTimeout, e.what(),
            "look at the slowest rank, or raise train.communication.timeoutSeconds"};
  } catch (const RendezvousTimeoutError& e) {
    return {ExitCode::kRendezvousTimeout, e.what(),
            "check that every rank is running and can reach MASTER_ADDR:MASTER_PORT"};
  } catch (const PortInUseError& e) {
    return {ExitCode::kPortInUse, e.what(), "stop the other process, or choose another port"};
  } catch (const InterfaceNotFoundError& e) {
    return {ExitCode::kInvalidConfig, e.what(),
            "name one of these in train.communication.env, or leave the variable out: then the "
            "route to rank 0 decides"};
  } catch (const BackendLibraryError& e) {
    return {ExitCode::kInvalidConfig, e.what(),
            "install the library of the program's own version, beside the program"};
  } catch (const BackendUnavailableError& e) {
    return {ExitCode::kInvalidConfig, e.what(), "set train.communication.backend to auto"};
  } catch (const OffloadError& e) {
    return {ExitCode::kOutputUnwritable, e.what(),
            "give train.offload.nvmePath sound storage, or turn offload off; the last checkpoint "
            "is intact"};
  } catch (const std::bad_alloc& e) {
    if (std::string_view(e.what()).starts_with("CUDA")) {
      return {ExitCode::kOutOfMemory, e.what(),
              "make micro-batches smaller, set activationCheckpointing, or use strategy zero3 on "
              "more GPUs"};
    }
    return {ExitCode::kOutOfMemory, "out of memory",
            "make micro-batches smaller, use strategy zero3, or give the ranks more memory"};
  } catch (const std::exception& e) {
    return {ExitCode::kInternal, e.what(), "please report this with the rank's log"};
  } catch (...) {
    return {ExitCode::kInternal, "an exception of unknown type", "please report this"};
  }
}

}  // namespace lockstep::runtime
