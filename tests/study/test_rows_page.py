"""The SFU that lab/rows/README.md adds to the lab works as the page shows it."""

import re
from pathlib import Path

import pytest

from lab.added import add_rows
from lab.cli import main
from lab.process import REPOSITORY
from lab.rows import ROWS
from lab.rows.row import Variant
from lab.sites import SITES
from tests.rows.exchange import serves_and_stops_serving
from tests.study.files import csv_rows

LINES_MAX = 60


@pytest.fixture
def experiment(namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    page = (REPOSITORY / "lab" / "rows" / "README.md").read_text()
    row, text = (
        re.search(rf"^```{language}\n(.*?)^```", page, re.S | re.M)
        for language in ("python", "yaml")
    )
    assert row
    assert text
    (tmp_path / "mine.py").write_text(row[1])
    (tmp_path / "mine.yaml").write_text(text[1])
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # as ./reprise-lab sets it
    return tmp_path / "mine.yaml"


def test_the_row_is_short_and_serves_as_every_row_must(experiment: Path, logs: Path) -> None:
    file = experiment.with_name("mine.py")
    code = [line for line in file.read_text().splitlines() if line.strip()]
    assert len(code) < LINES_MAX
    add_rows(file)
    with SITES["one_port"](4) as site, ROWS["mine"](site, Variant(), logs) as row:
        serves_and_stops_serving(row)


def test_the_experiment_runs_and_has_the_row_in_its_report(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(experiment), "--results", str(tmp_path / "results")]) == 0
    report = Path(capsys.readouterr().out.splitlines()[-1])
    assert "my SFU" in report.read_text()
    runs = csv_rows(report.with_name("runs.csv"))
    found = [(run["row"], run["viewers"], run["run"]) for run in runs]
    assert found == [
        (row, viewers, run)
        for row in ("mine", "p4_replication")
        for viewers in ("1", "8")
        for run in ("1", "2")
    ]
    assert {run["copies_missing"] for run in runs} == {"0"}
    assert report.with_name("mine.py").exists()
