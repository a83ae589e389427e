import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.study.cli import main
from lab.study.definitions import N_RUNS, STUDIES, RunId, Series, Sfu, Study
from lab.study.derive import derive
from lab.study.folder import Folder, FolderError, RunFacts, folders, write_whole
from lab.study.run import latest_unfinished
from tests.study.synthetic import arrival, as_pcap, copy

STUDY = Study("small", "for tests", (Series(Sfu.USERSPACE, 4.0, (1,)),))
INTERVAL_US = 2809.364548


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder.create(tmp_path, STUDY, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    made.add_session({"command": "test"})
    return made


def keep(folder: Folder, run: RunId, tmp_path: Path) -> None:
    records = [
        record
        for idx in range(300)
        for record in (
            arrival(round(idx * INTERVAL_US), idx),
            copy(round(idx * INTERVAL_US) + 100 + idx, idx, 2),
        )
    ]
    capture = tmp_path / "sfu.pcap"
    capture.write_bytes(as_pcap(records))
    facts = RunFacts(
        repeats=1,
        repeated_because=("true bitrate 1 kbit/s",),
        sfu_cpu_s=0.5,
        viewer_ips=("10.0.1.2",),
        started="2026-01-02T03:04:05+00:00",
        n_captured=len(records),
        session=0,
    )
    folder.keep(run, capture, facts)


def files(place: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(place)): file.read_bytes()
        for file in sorted(place.rglob("*"))
        if file.is_file()
    }


def test_a_folder_gives_back_what_was_put_in(folder: Folder, tmp_path: Path) -> None:
    assert folder.path.name == "small-20260102-030405"
    run = STUDY.runs()[0]
    assert folder.missing() == STUDY.runs()
    keep(folder, run, tmp_path)
    opened = Folder.open(folder.path)
    assert opened.study == STUDY
    assert opened.sessions == [{"command": "test"}]
    assert opened.missing() == STUDY.runs()[1:]
    assert opened.facts(run).repeated_because == ("true bitrate 1 kbit/s",)
    assert len(opened.records(run)) == 600
    assert opened.runs()[0].measurement.avg_delay_s == pytest.approx(249.5e-6)


def test_everything_derived_is_made_again_identically(folder: Folder, tmp_path: Path) -> None:
    for run in STUDY.runs():
        keep(folder, run, tmp_path)
    derive(folder)
    first = files(folder.path)
    for name in ("extended.csv", "summary.csv", "report.html"):
        (folder.path / name).unlink()
    (folder.path / "figures" / "stray.png").write_bytes(b"")
    derive(Folder.open(folder.path))
    assert files(folder.path) == first
    assert {"report.html", "figures/figure-24.svg", "figures/figure-24.png"} <= first.keys()
    assert {"tables/table-02.csv", "tables/table-12.csv"} <= first.keys()
    assert first["extended.csv"].count(b"\n") == 1 + N_RUNS


def test_the_report_command_ends_with_the_reports_path(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in STUDY.runs():
        keep(folder, run, tmp_path)
    assert main(["report", str(folder.path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(folder.path / "report.html")
    assert main(["compare", str(folder.path), str(folder.path)]) == 0
    assert "userspace" in capsys.readouterr().out


def test_a_damaged_capture_is_refused(folder: Folder, tmp_path: Path) -> None:
    run = STUDY.runs()[0]
    keep(folder, run, tmp_path)
    facts = folder.path / "runs" / f"{run.name}.json"
    facts.write_text(facts.read_text().replace('"n_captured": 600', '"n_captured": 601'))
    with pytest.raises(FolderError, match="600 frames, 601 were captured"):
        folder.runs()


def test_a_file_that_cannot_be_finished_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "it"
    write_whole(file, "old")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(file, "new")
    assert files(tmp_path) == {"it": b"old"}


def test_what_is_no_folder_of_a_study_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "is no folder of a study: no study.json" in capsys.readouterr().err
    (tmp_path / "study.json").write_text('{"format": 99}')
    with pytest.raises(FolderError, match="format 99, expected 1"):
        Folder.open(tmp_path)


def test_the_newest_unfinished_folder_is_gone_on_with(folder: Folder, tmp_path: Path) -> None:
    later = Folder.create(tmp_path, STUDY, datetime(2026, 1, 3, tzinfo=UTC))
    found = latest_unfinished(folders(tmp_path), "small")
    assert found is not None
    assert found.path == later.path
    assert latest_unfinished(folders(tmp_path), "thesis") is None


def test_the_studies_are_listed_with_their_time(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--results", str(folder.path.parent)]) == 0
    said = capsys.readouterr().out
    assert all(study.about in said for study in STUDIES.values())
    assert "0 of 3 runs" in said
