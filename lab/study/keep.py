"""Keeps a whole study in the repository, and makes README's section of the benchmark's.

What is small goes to `studies/`, in place of the study of the same experiment that was kept before:
raw samples, rows, the page. Figures are in the page, so they are left out as files, and so are
tables and viewers.csv, for `./reprise-lab report` makes all of them again.
"""

import shutil
from pathlib import Path

from lab.bench.readme import FIGURE, replaced, section_of, thesis_of
from lab.files import write_whole
from lab.process import REPOSITORY
from lab.study.derive import benchmarks_of, derive, results_of
from lab.study.folder import Folder, FolderError, folders
from lab.study.index import write_index
from lab.study.published import THESIS_BITRATES_MBPS

README = REPOSITORY / "README.md"
STUDIES = REPOSITORY / "studies"
BENCHMARK = "bench"
THESIS = "thesis"
FIGURES = {BENCHMARK: FIGURE, THESIS: "beside-4mbps-p4_recirculation"}
"""What README shows of them."""
LEFT_OUT = ("logs", "figures", "tables", "viewers.csv", ".work")
BYTES_MAX = 2 << 20


def keep(folder: Folder, studies: Path = STUDIES) -> Path:
    """Copies what is small; the kept folder. Refuses what is unfinished or too large."""
    name = folder.experiment.experiment
    if folder.missing() or folder.missing_benchmarks() or folder.is_quick:
        raise FolderError(
            f"{folder.path} is {'a short form' if folder.is_quick else 'unfinished'}: only whole "
            f"studies are kept; ./reprise-lab run {name} makes one"
        )
    derive(folder)
    files = {
        file.relative_to(folder.path): file.read_bytes()
        for file in sorted(folder.path.rglob("*"))
        if file.is_file() and file.relative_to(folder.path).parts[0] not in LEFT_OUT
    }
    if name in FIGURES:
        file = f"figures/{FIGURES[name]}.svg"
        files[Path(file)] = (folder.path / file).read_bytes()
    n_bytes = sum(len(content) for content in files.values())
    if n_bytes > BYTES_MAX:
        raise FolderError(f"{folder.path} has {n_bytes:,} bytes to keep, at most {BYTES_MAX:,}")
    kept = studies / folder.path.resolve().name
    for relative, content in files.items():
        write_whole(kept / relative, content)
    for old in folders(studies):
        if old.experiment.experiment == name and old.path != kept:
            shutil.rmtree(old.path)
    write_index(studies)
    return kept


def readme_section() -> str:
    """README's section on performance, from the benchmark and the thesis' study that are kept."""
    kept = {one.experiment.experiment: one.path for one in folders(STUDIES)}
    where = {name: str(path.relative_to(REPOSITORY)) for name, path in kept.items()}
    thesis = thesis_of(where[THESIS], FIGURES[THESIS]) if THESIS in kept else ""
    if BENCHMARK not in kept:
        return "\n\n".join(filter(None, [section_of(None, ""), thesis]))
    folder = Folder.open(kept[BENCHMARK])
    series = results_of(folder).series
    at_most = [one for one in series if one.summaries[0].bitrate_mbps == THESIS_BITRATES_MBPS[0]]
    made = section_of(benchmarks_of(folder), where[BENCHMARK], at_most)
    return "\n\n".join(filter(None, [made, thesis]))


def current_readme() -> str:
    """README as it must be with the run that is kept."""
    return replaced(README.read_text(), readme_section())
