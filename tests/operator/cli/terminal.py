"""lockstep on a terminal of its own, for tests: what it shows, and what is typed."""
import os
import pty
import select
import sys

LOCKSTEP = os.path.join(os.path.abspath(sys.argv[1]), "lockstep")
PATIENCE_S = 60


def fail(what):
    print("FAILED:", what)
    sys.exit(1)


def expect(what, holds):
    if not holds:
        fail(what)
    print("ok:", what)


class Terminal:
    """Runs `lockstep ARGUMENTS` on a terminal; standard output goes to the file `stdout`, if it is named."""

    def __init__(self, *arguments, stdout=None):
        self.child, self.fd = pty.fork()
        if self.child == 0:
            if stdout is not None:
                out = os.open(stdout, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
                os.dup2(out, 1)
            os.execv(LOCKSTEP, ["lockstep", *arguments])
        self.shown = ""

    def read(self):
        """More of what is shown; False at the end."""
        if not select.select([self.fd], [], [], PATIENCE_S)[0]:
            fail(f"silence after: {self.shown}")
        try:
            text = os.read(self.fd, 65536).decode(errors="replace")
        except OSError:  # EIO: nobody has the other end
            return False
        self.shown += text
        return text != ""

    def answer(self, question, line):
        """Types `line`, a text or bytes, once `question` stands at the end of what is shown."""
        while not self.shown.endswith(question):
            if not self.read():
                fail(f"no '{question}' in: {self.shown}")
        os.write(self.fd, line.encode() if isinstance(line, str) else line)
        self.shown += " "  # so that the same question must be shown again

    def end(self):
        """Exit status."""
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
