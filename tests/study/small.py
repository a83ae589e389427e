"""Writes a small experiment whose own row (SFU) is the stand-in `tests/study/forwarder.py`."""

from pathlib import Path

from tests.study.synthetic import text_of

ROWS = """
from lab.process import ChildError
from tests.study.standin import StandIn

class Mine(StandIn):
    name, label, source = "mine", "Mine", "me"
    options = {options!r}

class Lacking(StandIn):
    name, label, source = "lacking", "Lacking", "me"

    @classmethod
    def lacks(cls):
        return "no gold here: dig"

class Failing(StandIn):
    name, label, source = "failing", "Failing", "me"
    options = ("--no-such-option",)

class Refusing(StandIn):
    name, label, source = "refusing", "Refusing", "me"

    def subscribe(self, stream, viewers):
        if len(viewers) > 1:
            raise ChildError("one viewer, no more")
        super().subscribe(stream, viewers)
"""


def write(
    folder: Path,
    *,
    rows: str = "mine",
    options: tuple[str, ...] = (),
    viewers: str = "1, 3",
    runs: int = 1,
    packets: int = 8,
) -> Path:
    (folder / "mine.py").write_text(ROWS.format(options=options))
    file = folder / "mine.yaml"
    part = f"part: a, rows: [{rows}], viewers: [{viewers}], runs: {runs}"
    streams = f"streams: [{{packets_per_s: 400, packets: {packets}, frame_len_bytes: 200}}]"
    file.write_text(text_of(f"{part}, {streams}", name="mine", more="rows_from: mine.py\n"))
    return file
