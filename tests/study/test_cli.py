"""`./reprise-lab`: which study it runs, which it resumes, and what it says about mistakes."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import cli, peers
from lab.cli import main
from lab.experiment import known
from lab.pages.index import rows_of
from lab.results.folder import Folder
from tests.bench.synthetic import files
from tests.study.synthetic import NOW, runs_of, text_of


def tiny(name: str = "tiny") -> str:
    return text_of(
        "part: a, rows: [p4_replication, userspace], viewers: 1, runs: 1, "
        "streams: [{packets_per_s: 50}], quick: {rows: [userspace]}",
        name=name,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "tiny.yaml"
    made.write_text(tiny())
    return made


class Runs:
    """Takes the runner's place: notes the folders to measure, and behaves as the test says."""

    def __init__(self) -> None:
        self.folders: list[Folder] = []
        self.interrupts_at = 0
        self.n_runs = 0

    def __call__(self, folder: Folder, *_: object, only: Sequence[str]) -> None:
        self.folders.append(folder)
        for run in runs_of(folder.experiment):
            if folder.is_done(run.cell) or (only and run.cell.place.row not in only):
                continue
            self.n_runs += 1
            if self.n_runs == self.interrupts_at:
                raise KeyboardInterrupt
            folder.keep(run)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs()
    monkeypatch.setattr(cli, "run_missing", made)
    for name in ("require_namespaces", "require_build", "_install_packages"):
        monkeypatch.setattr(cli, name, lambda *_: None)
    monkeypatch.setattr(peers, "build", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


def run(file: Path, *options: str) -> int:
    return main(["run", str(file), "--results", str(file.parent / "results"), *options])


Said = pytest.CaptureFixture[str]


def test_an_interrupted_study_is_gone_on_with_as_it_says(
    runs: Runs, file: Path, capsys: Said
) -> None:
    runs.interrupts_at = 2
    assert run(file) == 130
    said = capsys.readouterr().err
    (folder,) = runs.folders
    assert f"go on: ./reprise-lab run {file} --resume {folder.path}\n" in said
    assert "reprise-lab: interrupted" in said
    assert main(["run", str(file), "--resume", str(folder.path)]) == 0
    assert [one.path for one in runs.folders] == [folder.path] * 2
    assert folder.is_complete
    assert capsys.readouterr().out.splitlines()[-1] == str(folder.path / "report.html")


def test_resume_alone_takes_the_newest_of_this_experiment_and_form(
    runs: Runs, file: Path, capsys: Said
) -> None:
    results, text = file.parent / "results", file.read_text()
    made = [
        Folder.create(results, text, str(file), NOW.replace(day=day), is_quick=is_quick)
        for day, is_quick in ((1, False), (2, False), (3, False), (4, True))
    ]
    Folder.create(results, tiny("other"), str(file), NOW.replace(day=5))
    assert run(file, "--resume") == 0
    assert f"going on with {made[2].path}\n" in capsys.readouterr().err
    assert run(file, "--resume", "--quick") == 0
    assert [one.path for one in runs.folders] == [made[2].path, made[3].path]
    # The newest folder is complete now, so the command must name the older folder.
    assert run(file, "--resume") == 2
    said = capsys.readouterr().err
    assert f"the newest folder of tiny, {made[2].path}, is complete; --resume DIR goes on" in said
    assert run(file, "--resume", str(made[0].path)) == 0


def test_resume_alone_does_not_go_on_with_another_version_of_the_experiment(
    runs: Runs, file: Path, capsys: Said
) -> None:
    made = Folder.create(file.parent / "results", file.read_text(), str(file), NOW)
    file.write_text(file.read_text().replace("packets_per_s: 50", "packets_per_s: 60"))
    assert run(file, "--resume") == 2
    assert f"{file} has changed since {made.path} began" in capsys.readouterr().err
    assert run(file, "--resume", str(made.path)) == 0


def test_two_at_once_do_not_measure_into_one_folder(runs: Runs, file: Path, capsys: Said) -> None:
    made = Folder.create(file.parent, file.read_text(), str(file), NOW)
    before = (made.path / "study.json").read_text()
    with Folder.open(made.path).alone():
        assert main(["run", str(file), "--resume", str(made.path)]) == 2
        said = capsys.readouterr().err
        assert said == f"reprise-lab: {made.path}: another process is measuring into it\n"
        assert (made.path / "study.json").read_text() == before
        assert runs.folders == []
    assert main(["run", str(file), "--resume", str(made.path)]) == 0


def test_all_goes_on_where_it_was_interrupted(
    runs: Runs, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    files = {}
    for name in ("one", "two", "three"):
        files[name] = file.with_name(f"{name}.yaml")
        files[name].write_text(tiny(name))
    monkeypatch.setattr(cli, "known", lambda: files)
    results = ["--results", str(file.parent / "results")]
    runs.interrupts_at = 4  # in the second of three studies with two runs each
    assert main(["run", "all", *results]) == 130
    resume = ["run", "all", "--resume", *results]
    assert f"go on: ./reprise-lab {' '.join(resume)}\n" in capsys.readouterr().err
    first, second = runs.folders
    main(resume)
    # The complete study is left alone, the interrupted study is resumed, and the third study
    # starts.
    assert [one.path for one in runs.folders[2:3]] == [second.path]
    assert [one.experiment.experiment for one in runs.folders] == ["one", "two", "two", "three"]
    assert all(one.is_complete for one in runs.folders)
    assert Path(first.path.parent / "index.html").exists()
    assert main(["run", "all", "--resume", str(first.path)]) == 2
    assert "--resume of all takes no folder" in capsys.readouterr().err


def test_all_ends_with_one_where_a_check_of_one_study_does_not_hold(
    runs: Runs, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: file.with_name(f"{name}.yaml") for name in ("one", "two")}
    for name, path in files.items():
        path.write_text(tiny(name))
    reports = [1, 0]
    monkeypatch.setattr(cli, "known", lambda: files)
    monkeypatch.setattr(cli, "rows_without_results", lambda _: set())
    monkeypatch.setattr(cli, "_report", lambda _: reports.pop(0))
    assert main(["run", "all", "--results", str(file.parent / "results")]) == 1
    assert reports == []


def test_only_some_rows_are_measured_and_the_study_is_unfinished(runs: Runs, file: Path) -> None:
    run(file, "--only", "userspace")
    (folder,) = runs.folders
    assert [cell.place.row for cell in folder.missing()] == ["p4_replication"]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["run", "nope"], (2, "nope: expected one of ")),
        (
            ["run", "FILE", "--only", "userspcae"],
            (2, "--only: expected one of p4_replication, user"),
        ),
        (["run", "FILE", "--bmv2", "/nope"], (2, "--bmv2: expected a program, found /nope")),
        (["run", "FILE", "--resume", "/nope"], (2, "/nope is no folder of a study")),
        (["run", "FILE", "--resume", "FOLDER"], (2, "is a folder of other, not of tiny")),
        (["report", "/nope"], (2, "/nope is no folder of a study: no study.json")),
        (["report", "FOLDER"], (1, "has no finished run yet")),
        (["compare", "FOLDER", "/nope"], (2, "/nope is no folder of a study")),
    ],
)
def test_a_mistake_is_told_in_a_line(
    runs: Runs, file: Path, capsys: Said, arguments: list[str], answer: tuple[int, str]
) -> None:
    code, says = answer
    other = Folder.create(file.parent, tiny("other"), str(file), NOW)
    other.add_session({})
    words = {"FILE": str(file), "FOLDER": str(other.path)}
    results = ["--results", str(file.parent / "results")] if arguments[0] == "run" else []
    assert main([*(words.get(one, one) for one in arguments), *results]) == code
    said = capsys.readouterr().err
    assert said.startswith("reprise-lab: ")
    assert says in said
    assert said.count("\n") == 1
    assert runs.folders == []


BENCHMARK = text_of("part: fanout, measure: fanout, quick: {short: true}")


def test_what_does_not_hold_in_a_benchmark_ends_with_one_and_speed_is_not_judged_in_a_short_form(
    runs: Runs, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fast.yaml"
    file.write_text(BENCHMARK)
    # In the first results, recirculation is slower than promised; in the second, a row (an SFU)
    # forwards nothing.
    slow = files()["fanout.csv"]
    silent = re.sub(r"^(ovs_group,,afxdp,spin,64),[0-9]+", r"\1,0", slow, flags=re.M)

    def measured(text: str) -> None:
        def run_it(folder: Folder, *_: object, **__: object) -> None:
            (folder.path / "fanout.csv").write_text(text)

        monkeypatch.setattr(cli, "run_missing", run_it)

    measured(slow)
    assert run(file) == 1
    assert "does not hold: at 64 copies, without loss: at least 90%" in capsys.readouterr().out
    assert main(["run", str(file), "--quick", "--results", str(tmp_path / "quick")]) == 0
    assert "not judged in the short form: at 64 copies" in capsys.readouterr().out
    measured(silent)
    assert main(["run", str(file), "--quick", "--results", str(tmp_path / "silent")]) == 1
    assert "does not hold: everything that is measured forwards" in capsys.readouterr().out


def test_benchmarks_are_compared_and_two_that_have_nothing_are_an_error(
    runs: Runs, tmp_path: Path, capsys: Said
) -> None:
    file = tmp_path / "fast.yaml"
    file.write_text(BENCHMARK)
    a, b, empty = (
        Folder.create(tmp_path / name, file.read_text(), str(file), NOW) for name in "abc"
    )
    rounds = "row,engine,port,wait,fanout,sink,copies_per_s_lossless\n"
    line = "pktswitch_bypass,,afxdp,spin,64,xdp,"
    for folder, rates in ((a, (100, 110)), (b, (130, 140))):
        (folder.path / "fanout.csv").write_text(f"{rounds}{line}{rates[0]}\n")
        both = "".join(f"{line}{rate}\n" for rate in rates)
        (folder.path / "fanout-rounds.csv").write_text(f"{rounds}{both}")
    capsys.readouterr()
    assert main(["compare", str(a.path), str(b.path)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"fanout.csv +pktswitch_bypass afxdp spin 64 xdp .* 1\.3 +B is higher", said)
    assert main(["compare", str(empty.path), str(empty.path)]) == 1
    assert "have nothing that was measured" in capsys.readouterr().err


def test_a_row_that_forwarded_nothing_has_no_results(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path, tiny(), "tiny.yaml", NOW)
    (folder.path / "runs.csv").write_text("row,packets_out\nuserspace,0\np4_replication,9\n")
    (folder.path / "fanout.csv").write_text("row,copies_per_s_lossless\novs_group,0\n")
    assert rows_of(folder) == {"p4_replication"}


def test_an_experiment_with_a_mistake_makes_no_folder(runs: Runs, file: Path, capsys: Said) -> None:
    file.write_text(file.read_text().replace("viewers: 1", "viewers: 0"))
    assert run(file) == 2
    assert f"reprise-lab: {file}: parts.0.viewers.0: expected" in capsys.readouterr().err
    assert not (file.parent / "results").exists()


def test_a_disk_that_is_full_is_told_in_a_line(
    runs: Runs, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli, "run_missing", full)
    assert run(file) == 1
    said = capsys.readouterr().err
    assert "reprise-lab: [Errno 28] No space left on device" in said
    assert "--resume" in said


def test_two_folders_are_compared_and_listed(runs: Runs, file: Path, capsys: Said) -> None:
    run(file)
    (folder,) = runs.folders
    capsys.readouterr()
    assert main(["compare", str(folder.path), str(folder.path)]) == 0
    said = capsys.readouterr().out
    assert said.count(" alike ") == 2
    assert main(["list", "--results", str(folder.path.parent)]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in known())
    assert f"{folder.path}" in listed
    assert "complete" in listed
    assert main(["index", str(folder.path.parent)]) == 0
    assert capsys.readouterr().out.strip().endswith("results/index.html")
