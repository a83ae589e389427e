"""`python -m lab.bench.derive DIR`: figures and report of a benchmark's folder, made again."""

import argparse
import shutil
import sys
from pathlib import Path

from lab.bench import charts
from lab.bench.folder import FolderError, read
from lab.bench.report import Content, content_of, report
from lab.bench.rows import ColumnError
from lab.files import write_whole
from lab.page import STYLE
from lab.process import deaf_to_signals

REPORT = "report.html"
PROSE = Path(__file__).with_name("report_prose.html")


def derive(folder: Path) -> Content:
    """Writes what is derived into `folder`, in place of what was there."""
    content = content_of(read(folder))
    files: dict[str, str | bytes] = {}
    for chart in content.charts:
        files[f"figures/{chart.key}.png"] = charts.png(chart)
        files[f"figures/{chart.key}.svg"] = charts.svg(chart)
    files[REPORT] = report(content, STYLE.read_text(), PROSE.read_text())
    with deaf_to_signals():
        shutil.rmtree(folder / "figures", ignore_errors=True)
        for name, data in files.items():
            write_whole(folder / name, data)
    return content


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.derive", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    try:
        derive(folder)
    except (FolderError, ColumnError) as error:
        print(f"lab.bench.derive: {error}", file=sys.stderr)
        return 1
    print(folder / REPORT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
