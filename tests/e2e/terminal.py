"""Runs a program at a pseudo-terminal; a test types and reads there as a person would."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Self

from lab.process import POLL_INTERVAL_S, dying_with_parent

TAB = "\t"
ENTER = "\r"
UP = "\x1b[A"
CTRL_C = "\x03"
CTRL_D = "\x04"

PATIENCE_S = 120.0
INTERRUPT_RETRY_S = 0.5
SIZE = (50, 250)
"""Lines and columns. No line of these tests is longer, so none is wrapped on the screen."""

# Escape sequences for colours, cursor movements and modes. Without them only the text remains.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    """A terminal and the program that runs at it. Ctrl-C reaches the program as from a keyboard."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._keys, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, SIZE)
        self._modes_before = termios.tcgetattr(theirs)
        # Kept open, because the terminal's modes are read at the end.
        self._theirs = theirs
        self._written = ""
        self._n_seen = 0
        self.process = subprocess.Popen(
            dying_with_parent(["setsid", "--ctty", *argv]),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, "TERM": "xterm"},
        )

    def press(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def expect(self, wanted: str) -> str:
        """Waits for this text after the texts expected before; returns all up to its end."""
        deadline_s = time.monotonic() + PATIENCE_S
        while (found := self.rest().find(wanted)) < 0:
            assert self._read(deadline_s), f"no {wanted!r} in {self.rest()!r}"
        text = self.rest()[: found + len(wanted)]
        self._n_seen += len(text)
        return text

    def run(self, line: str, prompt: str) -> list[str]:
        """Types a command; returns the lines that it writes before the next prompt."""
        self.press(line + ENTER)
        lines = self.expect(f"\n{prompt}").removesuffix(prompt).split("\n")
        # The first line is the command itself, echoed key by key.
        return lines[1:-1]

    def interrupt_until(self, wanted: str) -> str:
        """Presses Ctrl-C until this text comes, as one press may come before the command runs."""
        deadline_s = time.monotonic() + PATIENCE_S
        while wanted not in self.rest():
            assert time.monotonic() < deadline_s, f"no {wanted!r} in {self.rest()!r}"
            self.press(CTRL_C)
            # The echo of Ctrl-C comes before the answer to it.
            answered_s = time.monotonic() + INTERRUPT_RETRY_S
            while wanted not in self.rest() and self._read(answered_s):
                pass
        return self.expect(wanted)

    def is_at_a_prompt(self) -> bool:
        """Whether the program reads keys; while a command runs the terminal reads lines."""
        return not termios.tcgetattr(self._theirs)[3] & termios.ICANON

    def wait_until_a_command_runs(self) -> None:
        """Waits until the program runs a command, and so does not read keys."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.is_at_a_prompt():
            assert time.monotonic() < deadline_s, "it still reads keys"
            time.sleep(POLL_INTERVAL_S)

    def end(self) -> int:
        """Waits for the program's end; returns its exit code, negative if a signal ended it."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, f"still running: {self.rest()!r}"
            self._read(time.monotonic() + 0.05)
        while self._read(time.monotonic()):
            pass
        return self.process.returncode

    def is_as_it_was(self) -> bool:
        """Whether the terminal's modes are those from before the program."""
        return termios.tcgetattr(self._theirs) == self._modes_before

    def rest(self) -> str:
        """What was written after the last expected text."""
        return _CONTROL.sub("", self._written)[self._n_seen :]

    def _read(self, deadline_s: float) -> bool:
        wait_s = max(0.0, deadline_s - time.monotonic())
        if not select.select([self._keys], [], [], wait_s)[0]:
            return False
        self._written += os.read(self._keys, 65536).decode(errors="replace")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._keys)
        os.close(self._theirs)
