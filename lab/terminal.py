"""A line of progress: rewritten on a terminal, a line each elsewhere."""

import sys


class StatusLine:
    """Shows one line at a time on standard error."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        """Shows a line in place of the one before."""
        if self._on_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._on_terminal:
            print(file=sys.stderr)
