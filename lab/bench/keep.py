"""`python -m lab.bench.keep DIR`: keeps a run in the repository and makes README's section of it.

What is small goes to `studies/<its name>/`, in place of the run that was kept before:
`session.json`, the CSV files, `report.html`, the figure that README shows. Commit it then.
"""

import argparse
import shutil
import sys
from pathlib import Path

from lab.bench.derive import REPORT, derive
from lab.bench.folder import SESSION, FolderError, kept_folder, read
from lab.bench.readme import FIGURE, MarkerError, replaced, section_of
from lab.bench.results import FILES
from lab.bench.rows import ColumnError
from lab.files import write_whole
from lab.process import REPOSITORY

README = REPOSITORY / "README.md"
STUDIES = REPOSITORY / "studies"


def current_readme() -> str:
    """README as it must be with the run that is kept."""
    folder = kept_folder()
    if folder is None:
        return replaced(README.read_text(), section_of(None, ""))
    name = str(folder.relative_to(REPOSITORY))
    return replaced(README.read_text(), section_of(read(folder), name))


def keep(folder: Path) -> Path:
    """Copies what is small; the kept folder."""
    derive(folder)
    kept = STUDIES / folder.resolve().name
    names = [SESSION, *FILES, REPORT, f"figures/{FIGURE}.png"]
    content = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
    for old in STUDIES.glob("bench-*"):
        shutil.rmtree(old)
    for name, data in content.items():
        write_whole(kept / name, data)
    return kept


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.keep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", help="without it only README's section is made again"
    )
    folder = parser.parse_args().folder
    try:
        if folder is not None:
            print(keep(folder))
        write_whole(README, current_readme())
    except (FolderError, ColumnError, MarkerError) as error:
        print(f"lab.bench.keep: {error}", file=sys.stderr)
        return 1
    print(README)
    return 0


if __name__ == "__main__":
    sys.exit(main())
