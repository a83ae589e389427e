"""Child processes of the lab. They end when the lab ends, even if the lab is killed."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TERMINATION_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.02


class ChildError(RuntimeError):
    """A child process ended unexpectedly, or did not do the expected in time."""


def dying_with_parent(argv: Sequence[str]) -> list[str]:
    """Puts `argv` under setpriv(1), so that the kernel kills the process when the lab is killed."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv]


class Child:
    """A running process in its own session: Ctrl-C reaches only the lab, which ends the process.

    The process runs in the repository's root; its standard output and error go to `log`.
    """

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self.name = log.stem
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                dying_with_parent(argv),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=REPOSITORY,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while the process runs."""
        return self._process.poll()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def fail(self, what: str) -> ChildError:
        """Makes an error whose message ends with the last lines of the log."""
        tail = "\n".join(self.log_text().splitlines()[-20:])
        return ChildError(f"{self.name}: {what}; its log {self.log} ends with:\n{tail}")

    def wait_for_line(self, prefix: str, timeout_s: float) -> str:
        """Waits for a line of the log that begins with `prefix` and returns the first such line."""
        for line in self.lines(timeout_s):
            if line.startswith(prefix):
                return line
        if self.exit_code is not None:
            raise self.fail(f"exit code {self.exit_code} before a line {prefix!r}")
        raise self.fail(f"no line {prefix!r} within {timeout_s} s")

    def lines(self, timeout_s: float) -> Iterator[str]:
        """Yields the log's lines as they come, until the process has ended or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        for line in self._log_lines():
            if line is not None:
                yield line
            elif self.exit_code is not None:
                return
            if time.monotonic() > deadline_s:
                return

    def _log_lines(self) -> Iterator[str | None]:
        n_read = 0
        while True:
            ended = self.exit_code is not None
            whole = self.log_text().splitlines(keepends=True)
            for line in whole[n_read:]:
                if line.endswith("\n") or ended:
                    n_read += 1
                    yield line.rstrip("\n")
            yield None
            time.sleep(POLL_INTERVAL_S)

    def tell(self, line: str) -> None:
        if self._process.stdin is None or self._process.stdin.closed:
            raise self.fail("its standard input is closed")
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.fail(f"it has ended before it was told {line!r}") from None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.close_stdin()

    def close_stdin(self) -> None:
        """Closes standard input, which tells the lab's own programs to finish and end."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def wait(self, timeout_s: float) -> int:
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.fail(f"still running after {timeout_s} s") from None

    def finish(self, timeout_s: float) -> None:
        """Closes standard input and waits for the process to end with exit code 0."""
        self.close_stdin()
        self.expect_success(timeout_s)

    def expect_success(self, timeout_s: float) -> None:
        """Waits for the process to end; raises `ChildError` unless its exit code is 0."""
        if (code := self.wait(timeout_s)) != 0:
            raise self.fail(f"exit code {code}")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def stop(self) -> int:
        """Ends the process if it still runs: SIGTERM, and SIGKILL if that does not help."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(TERMINATION_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        self.close_stdin()
        return code

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def cpu_ns_of_threads(pid: int) -> list[int]:
    """The processor time so far of each thread of a process; an empty list if the process ended."""
    # schedstat has nanoseconds; /proc/PID/stat only ticks of ten milliseconds. glob("*/schedstat")
    # would raise ProcessLookupError for a thread that ends meanwhile.
    times: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                times.append(int((thread / "schedstat").read_text().split()[0]))
    except (FileNotFoundError, ProcessLookupError):
        return []
    return times


def stat_of(pid: int) -> list[str]:
    """The words of /proc/PID/stat (proc(5)) after the command's name, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def run(argv: Sequence[str], *, timeout_s: float = 120.0, stdin: str = "") -> str:
    """Runs a short command and returns its output. A failure is a `ChildError` with all output."""
    done = subprocess.run(
        dying_with_parent(argv),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        start_new_session=True,
        cwd=REPOSITORY,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise ChildError(f"exit code {done.returncode} of {' '.join(argv)}:\n{said}")
    return done.stdout


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Signals processes. Ignores processes that have ended: their next use reports this."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class InTurn:
    """Has processes that are stopped while others are measured (`lab.bench.turns`)."""

    __slots__ = ()
    pids: tuple[int, ...]

    def stand(self) -> None:
        signal_all(self.pids, signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets the processes run again.

        This must be called before the processes are ended, because a stopped process cannot end.
        """
        signal_all(self.pids, signal.SIGCONT)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Lets the processes run until the end of the block."""
        self.go_on()
        try:
            yield
        finally:
            self.stand()


@contextlib.contextmanager
def deaf_to_signals() -> Iterator[None]:
    """Holds back Ctrl-C and similar signals during work that must not be interrupted."""
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interrupt_on_termination() -> None:
    """Makes SIGTERM and SIGHUP unwind the program as Ctrl-C does, and makes Ctrl-C work.

    A shell starts a script's background job with SIGINT ignored. This function undoes that, so that
    SIGINT ends the program.
    """

    def interrupt(signal_number: int, frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(signal_number).name)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
