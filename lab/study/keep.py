"""Keeps a whole study in the repository, and makes the tables of README and docs/performance.md.

The small files of a study (raw samples, rows of results, the report's page) go to `studies/` and
replace the earlier study of the same experiment. Figures are in the page, so their files are left
out. Tables and viewers.csv are left out, too, since `./reprise-lab report` makes them again. If the
files are still too large, delays are rounded to three digits. If this is not enough, runs with many
samples keep only every n-th sample. Everything is then derived again from the kept samples, so that
each number follows from the kept files.

A folder is completed in `studies/.keeping` and then renamed.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.csvs import rows_of
from lab.files import alone
from lab.pages.derive import benchmarks_of, derive, promises_of, results_of, small_files
from lab.pages.index import write_index
from lab.pages.performance import page_of
from lab.pages.readme import KeptStudy, replaced, section_of
from lab.process import REPOSITORY, deaf_to_signals
from lab.results import served, verdicts
from lab.results.folder import DIGITS, Folder, FolderError, folders, thinned

README = REPOSITORY / "README.md"
PERFORMANCE = REPOSITORY / "docs" / "performance.md"
STUDIES = REPOSITORY / "studies"
LEFT_OUT = ("logs", "figures", "tables", "viewers.csv", ".work")
BYTES_MAX = 3 << 20
FORMS: tuple[tuple[int, int | None], ...] = (
    (DIGITS, None),
    (3, None),
    (3, 2000),
    (3, 1000),
    (3, 500),
    (3, 250),
)
"""The forms in which a study can be kept: digits of a delay, and the most samples of a run. The
first form that is small enough is used."""
KEEPING = ".keeping"
COMMIT = re.compile(r"[0-9a-f]{40}")


def keep(folder: Folder, studies: Path = STUDIES) -> Path:
    """Keeps a study and returns the kept folder.

    Refuses a study that is unfinished, that was run in its short form, or that is too large.
    """
    name = folder.experiment.experiment
    if folder.missing() or folder.missing_benchmarks() or folder.is_quick:
        raise FolderError(
            f"{folder.path} is {'a short form' if folder.is_quick else 'unfinished'}: only whole "
            f"studies are kept; ./reprise-lab run {name} makes one"
        )
    if why := without_commit(folder.sessions):
        raise FolderError(f"{folder.path}: {why}")
    studies.mkdir(parents=True, exist_ok=True)
    with alone(studies) as is_alone:
        if not is_alone:
            raise FolderError(f"{studies}: another process is keeping a study")
        return _keep(folder, studies)


def without_commit(sessions: Sequence[Mapping[str, object]]) -> str:
    """Why a reader could not get the measured code; empty if all sessions are of one commit."""
    commits = {str(one.get("commit")) for one in sessions}
    wrong = [one for one in sorted(commits) if not COMMIT.fullmatch(one)]
    if wrong:
        return f"expected sessions of a commit without changes, found {', '.join(wrong)}"
    if len(commits) > 1:
        return f"expected all sessions of one commit, found {', '.join(sorted(commits))}"
    return ""


def _keep(folder: Folder, studies: Path) -> Path:
    kept = studies / folder.path.resolve().name
    made, replaced = studies / KEEPING / "made" / kept.name, studies / KEEPING / "replaced"
    _tidy(studies)
    try:
        _make_smaller(folder, made)
        replaced.mkdir()
        for old in folders(studies):
            if old.experiment.experiment == folder.experiment.experiment:
                old.path.rename(replaced / old.path.name)
        made.rename(kept)
    finally:
        _tidy(studies)
    write_index(studies)
    return kept


def _tidy(studies: Path) -> None:
    """Removes the working folder. First puts back a study that was moved away and not replaced."""
    with deaf_to_signals():
        there = {one.experiment.experiment for one in folders(studies)}
        for old in folders(studies / KEEPING / "replaced"):
            if old.experiment.experiment not in there:
                old.path.rename(studies / old.path.name)
        shutil.rmtree(studies / KEEPING, ignore_errors=True)


def _make_smaller(folder: Folder, made: Path) -> None:
    """Copies a study without the files in `LEFT_OUT`, in the first form that is small enough."""
    whole = folder.path
    shutil.copytree(whole, made, ignore=lambda place, _: LEFT_OUT if Path(place) == whole else ())
    small = Folder.open(made)
    small.forget_original()
    for digits, samples_max in FORMS:
        if digits < DIGITS:
            for run in folder.runs():
                small.keep(thinned(run, samples_max) if samples_max else run, digits)
        if _n_bytes(made / "raw") > BYTES_MAX:
            continue
        derive(small)
        for name in LEFT_OUT:
            shutil.rmtree(made / name, ignore_errors=True)
            (made / name).unlink(missing_ok=True)
        if _n_bytes(made) <= BYTES_MAX:
            return
    raise FolderError(
        f"{folder.path}: expected at most {BYTES_MAX:,} bytes to keep, found more with "
        f"{FORMS[-1][1]} samples a run; fewer sizes or runs make less"
    )


def _n_bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def kept_studies() -> list[KeptStudy]:
    return [_told(folder) for folder in folders(STUDIES)]


def _told(folder: Folder) -> KeptStudy:
    name, found = folder.experiment.experiment, benchmarks_of(folder)
    small = {
        file: (folder.path / file).read_text()
        for file in (verdicts.FILE, served.FILE)
        if (folder.path / file).exists()
    }
    if verdicts.FILE not in small:
        # The study was kept when the lab did not yet write these files.
        results = results_of(folder)
        small = small_files(results, promises_of(results, found))
    return KeptStudy(
        name,
        str(folder.path.relative_to(REPOSITORY)),
        {key: value for key, value in folder.sessions[-1].items() if isinstance(value, str)},
        found,
        verdicts.read(small[verdicts.FILE]),
        rows_of(served.ServedRow, small[served.FILE], served.FILE) if served.FILE in small else [],
    )


def current_pages() -> dict[Path, str]:
    """Returns the texts of README and docs/performance.md with the kept studies' tables."""
    kept = kept_studies()
    return {
        README: replaced(README.read_text(), section_of(kept)),
        PERFORMANCE: page_of(PERFORMANCE.read_text(), kept),
    }
