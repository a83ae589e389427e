"""A line of progress, which is rewritten on a terminal and printed anew elsewhere."""

import sys


def rewrite(line: str) -> None:
    """Puts a line in place of the one that a terminal shows last on standard error."""
    print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


class StatusLine:
    """Shows one line at a time on standard error."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        """Shows a line, on a terminal in place of the previous one."""
        if self._on_terminal:
            rewrite(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._on_terminal:
            print(file=sys.stderr)
