"""Tests `keep`: a kept study is small and complete, and replaces the study that was kept before.

If keeping is cut short, the old or the new study is there, and the next try succeeds.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from lab.csvs import rows_of
from lab.files import alone
from lab.process import REPOSITORY
from lab.results import served, verdicts
from lab.results.folder import Folder, FolderError, folders
from lab.study import keep as keeping
from lab.study.keep import keep, without_commit
from tests.study.files import csv_rows
from tests.study.synthetic import NOW, SMALL, run_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
KEEP = (
    "import sys; from pathlib import Path; from lab.results.folder import Folder; "
    "from lab.study.keep import keep; keep(Folder.open(Path(sys.argv[1])), Path(sys.argv[2]))"
)


def study(results: Path, days: int = 0, n_packets: int = 12, *, is_quick: bool = False) -> Folder:
    """Makes a finished study. The runs with three viewers have `n_packets`, the others 12."""
    made = Folder.create(results, SMALL, "small.yaml", NOW + timedelta(days), is_quick=is_quick)
    made.add_session({"command": "test", "commit": COMMIT})
    random = Random(1)
    for cell in made.missing():
        n_here = n_packets if cell.viewers == 3 else 12
        run = run_of(
            made.experiment.part("a"), cell, lambda *_: random.randrange(10**5, 10**6), n_here
        )
        made.keep(replace(run, facts=replace(run.facts, sample_every=5)))
    return made


def n_bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def names(studies: Path) -> list[str]:
    return sorted(path.name for path in studies.iterdir())


def test_what_is_kept_is_small_and_has_its_own_rows(tmp_path: Path) -> None:
    folder, studies = study(tmp_path / "results"), tmp_path / "studies"
    (folder.path / "logs").mkdir()
    (folder.path / "logs" / "switch.log").write_text("much")
    kept = keep(folder, studies)
    assert kept == studies / folder.path.name
    assert names(kept) == [
        "checks.csv", "experiment.yaml", "raw", "report.html", "runs.csv", "served.csv",
        "study.json", "summary.csv"
    ]  # fmt: skip
    assert list(Folder.open(kept).runs()) == list(folder.runs())
    assert "small" in (studies / "index.html").read_text()
    assert names(studies) == ["index.html", kept.name]


def test_a_large_study_loses_digits_first_and_then_samples_of_its_largest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, studies = study(tmp_path / "results", n_packets=3000), tmp_path / "studies"
    as_measured = keep(folder, studies)
    whole = n_bytes(as_measured)
    monkeypatch.setattr(keeping, "BYTES_MAX", whole - 1)
    keep(folder, studies)
    rounded = n_bytes(as_measured)
    assert rounded < whole
    assert {run.facts.sample_every for run in Folder.open(as_measured).runs()} == {5}
    assert len(next(reversed([*Folder.open(as_measured).runs()])).seen.samples) == 3000
    monkeypatch.setattr(keeping, "BYTES_MAX", rounded - 1)
    kept = keep(folder, studies)
    assert n_bytes(kept) < rounded
    small, large = (
        [run for run in Folder.open(kept).runs() if run.cell.viewers == n] for n in (1, 3)
    )
    assert {(len(run.seen.samples), run.facts.sample_every) for run in small} == {(12, 5)}
    assert {(len(run.seen.samples), run.facts.sample_every) for run in large} == {(1500, 10)}
    assert [sample.sequence for sample in large[0].seen.samples[:3]] == [0, 2, 4]
    rows = csv_rows(kept / "runs.csv")
    assert [row["sample_every"] for row in rows] == ["5", "5", "10", "10"]
    assert [run.seen.totals for run in large] == [
        run.seen.totals for run in folder.runs() if run.cell.viewers == 3
    ]


def test_what_is_too_large_in_every_form_is_refused_and_leaves_the_kept_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studies = tmp_path / "studies"
    kept = keep(study(tmp_path / "results"), studies)
    monkeypatch.setattr(keeping, "BYTES_MAX", 1000)
    with pytest.raises(FolderError, match="expected at most 1,000 bytes to keep, found more with"):
        keep(study(tmp_path / "results", days=1), studies)
    assert names(studies) == ["index.html", kept.name]


def test_unfinished_and_short_studies_are_refused(tmp_path: Path) -> None:
    folder = study(tmp_path / "results")
    next(iter((folder.path / "raw").iterdir())).unlink()
    with pytest.raises(FolderError, match="is unfinished: only whole studies are kept"):
        keep(folder, tmp_path / "studies")
    with pytest.raises(FolderError, match="is a short form"):
        keep(study(tmp_path / "results", days=1, is_quick=True), tmp_path / "studies")


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        (
            [f"{COMMIT}, changed"],
            f"expected sessions of a commit without changes, found {COMMIT}, ",
        ),
        (["unknown"], "expected sessions of a commit without changes, found unknown"),
        ([COMMIT, COMMIT[::-1]], "expected all sessions of one commit, found"),
    ],
)
def test_a_study_of_no_commit_or_of_two_is_refused(
    tmp_path: Path, commits: list[str], why: str
) -> None:
    folder = study(tmp_path / "results")
    file = folder.path / "study.json"
    said = json.loads(file.read_text())
    said["sessions"] = [{**said["sessions"][0], "commit": commit} for commit in commits]
    file.write_text(json.dumps(said))
    with pytest.raises(FolderError, match=why):
        keep(Folder.open(folder.path), tmp_path / "studies")


def test_every_kept_study_names_its_commit() -> None:
    kept = folders(keeping.STUDIES)
    assert kept
    sessions = [(one.path.name, session) for one in kept for session in one.sessions]
    assert [name for name, session in sessions if without_commit([session])] == []


def test_what_is_kept_says_which_of_its_checks_hold_and_how_many_viewers_are_served(
    tmp_path: Path,
) -> None:
    kept = keep(study(tmp_path / "results"), tmp_path / "studies")
    told = {one.name: one.holds for one in verdicts.read((kept / "checks.csv").read_text())}
    assert told["every row forwards"] is True
    rows = rows_of(served.ServedRow, (kept / "served.csv").read_text(), "served.csv")
    assert {(one.row, one.limit_ms) for one in rows} == {("userspace", 20.0), ("userspace", 150.0)}
    assert {str(one.served) for one in rows} == {"3 or more"}


def test_a_later_study_takes_the_place_of_the_one_before_and_of_no_other(tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    keep(study(tmp_path / "results"), studies)
    (studies / "README.md").write_text("for people")
    kept = keep(study(tmp_path / "results", days=1), studies)
    assert names(studies) == ["README.md", "index.html", kept.name]
    # A kept study can itself be kept again.
    before = n_bytes(kept)
    assert keep(Folder.open(kept), studies) == kept
    assert n_bytes(kept) == before


def test_two_at_once_do_not_keep(tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    studies.mkdir()
    with alone(studies) as is_alone:
        assert is_alone
        with pytest.raises(FolderError, match="another process is keeping a study"):
            keep(study(tmp_path / "results"), studies)


@pytest.mark.parametrize("at", range(1, 4))
def test_killed_at_a_rename_nothing_is_lost_and_the_next_keeps(tmp_path: Path, at: int) -> None:
    """`keep` renames the old folder away (1), then the new folder into place (2).

    There is no third rename, so with 3 the process is not killed.
    """
    studies = tmp_path / "studies"
    old = keep(study(tmp_path / "results"), studies)
    new = study(tmp_path / "results", days=1)
    kill = (
        "import os, pathlib; rename = pathlib.Path.rename; seen = []\n"
        "def renamed(self, target):\n"
        "    if self.is_dir(): seen.append(self)\n"
        f"    if len(seen) == {at} and self.is_dir(): os.kill(os.getpid(), 9)\n"
        "    return rename(self, target)\n"
        "pathlib.Path.rename = renamed\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", kill + KEEP, new.path, studies],
        cwd=REPOSITORY, env={**os.environ}, check=False,
    )  # fmt: skip
    assert ended.returncode == (-signal.SIGKILL if at <= 2 else 0)
    if at <= 2:
        there = [path.name for path in studies.rglob("report.html")]
        assert there, "neither the old study nor the new one is there"
    kept = keep(new, studies)
    assert names(studies) == ["index.html", kept.name]
    assert kept != old


def test_what_fails_between_the_renames_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studies = tmp_path / "studies"
    old = keep(study(tmp_path / "results"), studies)
    new = study(tmp_path / "results", days=1)
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.parent.name == "made":
            raise OSError("no room")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="no room"):
        keep(new, studies)
    assert names(studies) == ["index.html", old.name]
    assert list(Folder.open(old).runs())
