"""The folder of a study: raw captures and what they do not say; everything else is derived.

    study.json            series, and per session: command, commit, machine, versions
    captures/RUN.pcap.xz  the frames on the SFU's link, both directions
    runs/RUN.json         written last: a run with this file is done
    logs/                 of the children of the last session
    extended.csv ...      derived, made again by `./reprise-lab report`

Files appear whole: they are written beside and renamed.
"""

import json
import lzma
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab import pcap
from lab.addresses import SFU_IP
from lab.process import deaf_to_signals
from lab.study.analysis import Run, measure
from lab.study.definitions import RunId, Series, Sfu, Study

FORMAT = 1
XZ_PRESET = 1
_PARTIAL = ".partial"


class FolderError(RuntimeError):
    """The folder is none of a study, or not one that can be gone on with."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a capture does not say about its run."""

    repeats: int
    repeated_because: tuple[str, ...]
    sfu_cpu_s: float
    viewer_ips: tuple[str, ...]
    started: str
    n_captured: int
    session: int


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file that is there whole or not at all."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + _PARTIAL)
    with deaf_to_signals():
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)


class Folder:
    """A study's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, results: Path, study: Study, now: datetime) -> "Folder":
        """A new folder under `results`, named for the study and the time."""
        folder = cls(results / f"{study.name}-{now:%Y%m%d-%H%M%S}")
        folder.path.mkdir(parents=True)
        folder._write_study(study, [])
        return folder

    @classmethod
    def open(cls, path: Path) -> "Folder":
        """An existing folder."""
        folder = cls(path)
        found = folder._read_study().get("format")
        if found != FORMAT:
            raise FolderError(f"{path}: format {found}, expected {FORMAT}")
        return folder

    @property
    def study(self) -> Study:
        """What it is the folder of."""
        content = self._read_study()
        series = tuple(
            Series(Sfu(one["sfu"]), float(one["bitrate_mbps"]), tuple(one["viewers"]))
            for one in content["series"]
        )
        return Study(content["study"], content["about"], series)

    @property
    def sessions(self) -> list[dict[str, str]]:
        """The sessions in which it was measured."""
        sessions: list[dict[str, str]] = self._read_study()["sessions"]
        return sessions

    def add_session(self, session: dict[str, str]) -> int:
        """Notes that a session begins; its index."""
        sessions = [*self.sessions, session]
        self._write_study(self.study, sessions)
        return len(sessions) - 1

    def is_done(self, run: RunId) -> bool:
        """Whether the run is there, whole."""
        return self._facts_file(run).exists()

    def missing(self) -> list[RunId]:
        """The runs that are still to be done, in order."""
        return [run for run in self.study.runs() if not self.is_done(run)]

    def keep(self, run: RunId, capture: Path, facts: RunFacts) -> None:
        """Takes in a finished run: the capture compressed, then the facts."""
        packed = lzma.compress(capture.read_bytes(), preset=XZ_PRESET)
        write_whole(self._capture_file(run), packed)
        content = {name: getattr(facts, name) for name in RunFacts.__dataclass_fields__}
        write_whole(self._facts_file(run), json.dumps(content, indent=1) + "\n")

    def facts(self, run: RunId) -> RunFacts:
        """What is noted of a finished run."""
        content = json.loads(self._facts_file(run).read_text())
        for name in ("repeated_because", "viewer_ips"):
            content[name] = tuple(content[name])
        return RunFacts(**content)

    def records(self, run: RunId) -> list[pcap.Record]:
        """The captured frames of a finished run."""
        file = self._capture_file(run)
        records = list(pcap.records(lzma.decompress(file.read_bytes())))
        expected = self.facts(run).n_captured
        if len(records) != expected:
            raise FolderError(f"{file} has {len(records)} frames, {expected} were captured")
        return records

    def runs(self) -> list[Run]:
        """All finished runs, measured anew from their captures."""
        return [self._run(run) for run in self.study.runs() if self.is_done(run)]

    def _run(self, run: RunId) -> Run:
        facts = self.facts(run)
        measurement = measure(self.records(run), SFU_IP, facts.viewer_ips)
        return Run(run, measurement, facts.repeats, facts.sfu_cpu_s)

    @contextmanager
    def work(self) -> Iterator[Path]:
        """A place for what is not finished; it is gone afterwards, and so is an earlier one."""
        place = self.path / ".work"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
        finally:
            with deaf_to_signals():
                shutil.rmtree(place, ignore_errors=True)

    def _capture_file(self, run: RunId) -> Path:
        return self.path / "captures" / f"{run.name}.pcap.xz"

    def _facts_file(self, run: RunId) -> Path:
        return self.path / "runs" / f"{run.name}.json"

    def _read_study(self) -> dict[str, Any]:
        file = self.path / "study.json"
        try:
            content: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            raise FolderError(f"{self.path} is no folder of a study: no study.json") from None
        except json.JSONDecodeError as error:
            raise FolderError(f"{file}: {error}") from None
        return content

    def _write_study(self, study: Study, sessions: list[dict[str, str]]) -> None:
        series = [
            {"sfu": one.sfu, "bitrate_mbps": one.bitrate_mbps, "viewers": list(one.viewers)}
            for one in study.series
        ]
        content = {
            "format": FORMAT,
            "study": study.name,
            "about": study.about,
            "series": series,
            "sessions": sessions,
        }
        write_whole(self.path / "study.json", json.dumps(content, indent=1) + "\n")


def folders(results: Path) -> list[Folder]:
    """All folders of studies under `results`, the oldest first by name."""
    return [Folder(file.parent) for file in sorted(results.glob("*/study.json"))]
