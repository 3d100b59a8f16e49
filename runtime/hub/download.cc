#include "runtime/hub/download.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/common/system_error.h"
#include "runtime/hub/file_digest.h"
#include "runtime/hub/retry.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::chrono::seconds kLookAtLockEvery{1};
constexpr mode_t kFileMode = 0644;

Error told_to_stop() {
  return {ErrorCode::kUnavailable, "told to stop", ""};
}

// A file descriptor; closing it lets go of its lock.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

int64_t size_of(const std::string& path) {
  std::error_code unseen;
  const std::uintmax_t size = fs::file_size(path, unseen);
  return unseen ? -1 : static_cast<int64_t>(size);
}

// The contents of one blob on their way to the disk.
class Download {
 public:
  Download(const HubSession& session, const CommitFiles& files, const std::string& path,
           FetchProgress& progress)
      : session_(session),
        files_(files),
        path_(path),
        file_(files.tree.at(path)),
        cache_(repo_cache(session.settings.cache, files.reference)),
        progress_(progress) {}

  // Note [A file comes].
  Result<void> run() {
    RETURN_IF_ERROR(make_parent(cache_.blob(file_.etag())));
    ASSIGN_OR_RETURN(const Descriptor lock, take_lock());
    if (size_of(cache_.blob(file_.etag())) == file_.num_bytes) {  // another process was here
      count(file_.num_bytes);
      return {};
    }
    for (int tries = 0; tries < 2; ++tries) {
      RETURN_IF_ERROR(complete());
      ASSIGN_OR_RETURN(const bool is_sound, check());
      if (is_sound) return publish();
      if (::unlink(partial().c_str()) != 0) {
        return common::system_error("remove", partial(), errno);
      }
      count(0);
    }
    return Error{ErrorCode::kDataLoss,
                 path_ + " of " + repository_name(files_.reference) +
                     " came twice with another checksum than the hub tells, " + file_.etag(),
                 "something on the way changes contents: a proxy, or a mirror that is not sound"};
  }

 private:
  std::string partial() const { return cache_.partial(file_.etag()); }

  // Tells how much of this file is there.
  void count(int64_t num_bytes) {
    progress_.bytes_come += num_bytes - std::exchange(here_, num_bytes);
  }

  // Waits until nobody else fetches this blob. What comes meanwhile counts.
  Result<Descriptor> take_lock() {
    const std::string path = cache_.lock(file_.etag());
    RETURN_IF_ERROR(make_parent(path));
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
    if (lock.fd() < 0) return common::system_error("open", path, errno);
    while (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return common::system_error("lock", path, errno);
      if (session_.stop.stop_requested()) return told_to_stop();
      count(std::max<int64_t>(size_of(partial()), here_));
      session_.pause(kLookAtLockEvery, session_.stop);
    }
    return lock;
  }

  // Until the partial file has its full length.
  Result<void> complete() {
    const Descriptor out(::open(partial().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
    if (out.fd() < 0) return common::system_error("open", partial(), errno);
    int64_t size = std::max<int64_t>(size_of(partial()), 0);
    if (size > file_.num_bytes) size = 0;
    for (int fruitless = 0; size < file_.num_bytes;) {
      const int64_t before = size;
      count(size);
      const HttpReply reply = receive(out.fd(), size);
      if (disk_error_ != 0) return common::system_error("write", partial(), disk_error_);
      if (session_.stop.stop_requested()) return told_to_stop();
      fruitless = size > before ? 0 : fruitless + 1;
      if (size >= file_.num_bytes) break;
      RETURN_IF_ERROR(pause_after(reply, fruitless));
    }
    count(size);
    if (::ftruncate(out.fd(), size) != 0 || ::fsync(out.fd()) != 0) {
      return common::system_error("sync", partial(), errno);
    }
    return {};
  }

  // One try for what follows after `size` bytes, which grows.
  HttpReply receive(int out, int64_t& size) {
    const BodySink sink = {
        .begin =
            [&](int64_t begin) {
              if (begin > size) return false;
              size = begin;
              return true;
            },
        .take = [&](std::string_view piece) { return append(out, piece, size); }};
    const bool is_data = files_.reference.kind == common::HubKind::kDataset;
    return try_hub(session_,
                   (is_data ? "/datasets/" : "/") + files_.reference.repo + "/resolve/" +
                       files_.commit + "/" + encode_path(path_),
                   size, &sink);
  }

  bool append(int out, std::string_view piece, int64_t& size) {
    const bool is_more = size + static_cast<int64_t>(piece.size()) > file_.num_bytes;
    piece = piece.substr(0, static_cast<std::size_t>(file_.num_bytes - size));
    while (!piece.empty()) {
      const ssize_t written = ::pwrite(out, piece.data(), piece.size(), size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        disk_error_ = errno;
        return false;
      }
      size += written;
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
    count(size);
    return !is_more;  // the checksum tells whether what came was right
  }

  // Waits before the next try, if there is to be one.
  Result<void> pause_after(const HttpReply& reply, int fruitless) {
    const bool was_cut = !reply.broken.empty() || reply.status == 200 || reply.status == 206;
    const auto pause = pause_before_next(fruitless, {.status = was_cut ? 0 : reply.status,
                                                     .may_pass = reply.may_pass,
                                                     .retry_after = retry_after_of(reply)});
    if (!pause) {
      HttpReply told = reply;
      if (was_cut && told.broken.empty()) told.broken = "the contents ended early";
      Error error = error_of(session_, {.reference = files_.reference, .file = path_}, told);
      if (was_cut && here_ > 0) error.hint = "what came stays: the next attempt goes on from it";
      return error;
    }
    session_.pause(*pause, session_.stop);
    if (session_.stop.stop_requested()) return told_to_stop();
    return {};
  }

  Result<bool> check() const {
    const Digest kind = file_.lfs_sha256.empty() ? Digest::kGitSha1 : Digest::kSha256;
    ASSIGN_OR_RETURN(const std::string found, digest_of(partial(), kind, session_.stop));
    return found == file_.etag();
  }

  Result<void> publish() const {
    if (::rename(partial().c_str(), cache_.blob(file_.etag()).c_str()) == 0) return {};
    return common::system_error("rename", partial(), errno);
  }

  const HubSession& session_;
  const CommitFiles& files_;
  const std::string& path_;
  const RepoFile& file_;
  const RepoCache cache_;
  FetchProgress& progress_;
  int64_t here_ = 0;  // bytes of this file that are counted
  int disk_error_ = 0;
};

// Before the first byte: is there room for all of it?
Result<void> check_space(const HubSession& session, const CommitFiles& files,
                         const std::vector<std::string>& missing) {
  const RepoCache cache = repo_cache(session.settings.cache, files.reference);
  RETURN_IF_ERROR(make_parent(cache.blob("any")));
  int64_t needed = 0;
  for (const std::string& path : missing) {
    const RepoFile& file = files.tree.at(path);
    needed += file.num_bytes - std::max<int64_t>(size_of(cache.partial(file.etag())), 0);
  }
  std::error_code error;
  const fs::space_info space = fs::space(cache.folder(), error);
  if (error) return common::system_error("look at", cache.folder(), error.value());
  if (needed <= static_cast<int64_t>(space.available)) return {};
  return Error{ErrorCode::kUnavailable,
               repository_name(files.reference) + " needs " + std::to_string(needed) +
                   " bytes more in " + session.settings.cache + ", which has " +
                   std::to_string(space.available) + " free",
               "free space on this volume, or set HF_HOME to a larger one"};
}

Error is_missing_offline(const RepoCache& cache, const CommitFiles& files,
                         const std::string& path) {
  return {ErrorCode::kNotFound,
          "HF_HUB_OFFLINE is set, and " + path + " of " + repository_name(files.reference) +
              " is not in the cache: " + cache.snapshot(files.commit) + "/" + path,
          "fetch it once with a network, e.g. by `lockstep fetch`"};
}

}  // namespace

Result<void> fetch_files(const HubSession& session, const CommitFiles& files,
                         const std::vector<std::string>& paths, FetchProgress& progress) {
  const RepoCache cache = repo_cache(session.settings.cache, files.reference);
  std::vector<std::string> missing;
  for (const std::string& path : paths) {
    if (has_file(cache, files.commit, path, files.tree.at(path))) continue;
    if (session.settings.is_offline) return is_missing_offline(cache, files, path);
    missing.push_back(path);
    progress.bytes_wanted += files.tree.at(path).num_bytes;
  }
  progress.files_wanted += static_cast<int64_t>(paths.size());
  if (missing.empty()) return {};
  RETURN_IF_ERROR(check_space(session, files, missing));
  for (const std::string& path : missing) {
    RETURN_IF_ERROR(Download(session, files, path, progress).run());
    RETURN_IF_ERROR(link_file(cache, files.commit, path, files.tree.at(path)));
  }
  return {};
}

}  // namespace lockstep::runtime
