#include "tests/support/process_kubelet/pod_sandbox.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::testing {

namespace fs = std::filesystem;

namespace {

void check(int rc, const std::string& step) {
  if (rc != 0) throw std::system_error(errno, std::generic_category(), step);
}

// Makes `target` a mount point of the same kind (file or folder) as `source`.
void make_mount_point(const fs::path& source, const fs::path& target) {
  if (fs::is_directory(source)) {
    fs::create_directories(target);
    return;
  }
  fs::create_directories(target.parent_path());
  const int fd = open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "create " + target.string());
  close(fd);
}

void bind(const fs::path& source, const fs::path& target, bool read_only) {
  make_mount_point(source, target);
  check(mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr),
        "bind " + source.string() + " to " + target.string());
  if (!read_only) return;
  check(mount(nullptr, target.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr),
        "make " + target.string() + " read-only");
}

}  // namespace

void enter_sandbox(const PodSandbox& sandbox) {
  check(unshare(CLONE_NEWNS), "unshare");
  check(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make mounts private");

  // The overlay's upper folder must not lie in its lower one, hence a tmpfs of its own.
  const fs::path scratch = fs::path(sandbox.state_dir) / "sandbox";
  fs::create_directories(scratch);
  check(mount("tmpfs", scratch.c_str(), "tmpfs", 0, nullptr), "mount tmpfs");
  const fs::path root = scratch / "root";
  for (const char* name : {"upper", "work", "root"}) fs::create_directories(scratch / name);
  const std::string options = "lowerdir=/,upperdir=" + (scratch / "upper").string() +
                              ",workdir=" + (scratch / "work").string();
  check(mount("overlay", root.c_str(), "overlay", 0, options.c_str()), "mount overlay");

  const auto inside = [&](const std::string& path) {
    return root / fs::path(path).relative_path();
  };
  for (const char* path : {"/proc", "/sys", "/dev", "/tmp"}) bind(path, inside(path), false);
  for (const std::string& path : sandbox.shared) bind(path, inside(path), false);
  check(mount("tmpfs", inside("/dev/shm").c_str(), "tmpfs", 0, nullptr), "mount /dev/shm");
  bind(sandbox.termination_file, inside("/dev/termination-log"), false);
  bind(sandbox.hosts_file, inside("/etc/hosts"), true);
  for (const BindMount& volume : sandbox.mounts) {
    bind(volume.source, inside(volume.target), volume.read_only);
  }
  check(chroot(root.c_str()), "chroot");
}

}  // namespace lockstep::testing
