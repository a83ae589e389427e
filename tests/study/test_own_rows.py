"""A user's own rows (SFUs) and loads: what their files may contain, what they cannot break."""

import os
import struct
import sys
from pathlib import Path

import pytest

from lab.added import add_rows
from lab.bench import matrix
from lab.bench.forwarders import Forwarder
from lab.bench.matrix import Choice
from lab.cli import main
from lab.experiment import ExperimentError, parse
from lab.meter import Trace
from lab.offered import sendings_of, viewer_numbers
from lab.pcap import PcapError, times_and_lengths
from lab.peers import build
from lab.process import run
from lab.results.folder import Folder
from lab.rows import ROWS
from lab.sites import OnePort
from lab.study import runner
from tests.study.synthetic import NOW, cell_of, part_of, text_of

MINE = """
import helper
from pathlib import Path
from lab.process import Child
from lab.rows.row import Row, Variant

class {kind}(Row):
    name, label, source = "{name}", "my SFU", "tests"
    variants = (Variant("", "afxdp", "spin"),)
    beside = helper.WORD + Path(__file__).with_name("data.txt").read_text()
    def start(self): {start}
    def subscribe(self, stream, viewers): {subscribe}
    def stop(self): {stop}
    pids = ()
"""
P4 = "part: a, rows: [p4_replication], viewers: 1"
STEADY = f"{P4}, streams: [{{packets_per_s: 9}}]"
BESIDE = "rows_from: mine.py\nfiles: [helper.py, data.txt]\n"


def write(folder: Path, name: str, **does: str) -> Path:
    """Writes an experiment, the file of its own row, and the files that the row needs."""
    folder.mkdir(exist_ok=True)
    said = {"start": "pass", "subscribe": "pass", "stop": "pass", **does}
    (folder / "mine.py").write_text(MINE.format(kind=name.title(), name=name, **said))
    (folder / "helper.py").write_text("WORD = 'found '\n")
    (folder / "data.txt").write_text("it")
    part = f"part: a, rows: [{name}], viewers: 1, runs: 1"
    streams = "streams: [{packets: 3, packets_per_s: 100}]"
    (folder / "own.yaml").write_text(text_of(f"{part}, {streams}", more=BESIDE))
    return folder / "own.yaml"


def test_what_stands_beside_a_row_is_found_while_it_is_measured_and_from_the_copies_later(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "here", "beside")
    folder = Folder.create(tmp_path / "results", file.read_text(), str(file), NOW)
    assert {"mine.py", "helper.py", "data.txt"} <= {one.name for one in folder.path.iterdir()}
    # While the original file is in its place, it is loaded instead of the copy, and finds the files
    # in its own folder.
    (tmp_path / "here" / "data.txt").write_text("the original")
    sys.modules.pop("helper", None)
    assert Folder.open(folder.path).experiment.experiment == "own"
    assert vars(ROWS["beside"])["beside"] == "found the original"
    for gone in (tmp_path / "here").iterdir():
        if gone.is_file():
            gone.unlink()
    sys.modules.pop("helper", None)
    assert Folder.open(folder.path).experiment.experiment == "own"
    assert vars(ROWS["beside"])["beside"] == "found it"
    assert str(folder.path) not in sys.path


@pytest.mark.parametrize("where", ["start", "subscribe", "stop"])
def test_whatever_a_row_raises_is_noted_and_the_study_goes_on(
    namespaces: None, tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # The meter is needed: before a run it measures an empty loop.
    build()
    file = write(tmp_path / "here", "raising", **{where: "{}['no such key']"})
    folder = Folder.create(tmp_path / "results", file.read_text(), str(file), NOW)
    runner.run_missing(folder, folder.add_session({}), lambda _: None)
    noted = [why for why in folder.not_measured.values() if "KeyError: 'no such key'" in why]
    assert len(noted) == 1
    (trace,) = (folder.path / "logs").rglob("error.log")
    assert "Traceback" in trace.read_text()


def test_a_row_of_ones_own_enters_the_fan_out_beside_its_like(tmp_path: Path) -> None:
    write(tmp_path / "here", "faster")
    add_rows(tmp_path / "here" / "mine.py")
    mine = Forwarder("faster", "", "afxdp", "spin")
    found = [one.forwarders for one in matrix.cells(Choice(rows=("faster",), fanouts=(8,)))]
    (group,) = (forwarders for forwarders in found if mine in forwarders)
    assert Forwarder("pktswitch_bypass", "", "afxdp", "spin") in group
    text = text_of("part: f, measure: fanout, rows: [faster]", more=BESIDE)
    (tmp_path / "here" / "own.yaml").write_text(text)
    (part,) = parse(text, str(tmp_path / "here" / "own.yaml")).benchmarks
    assert part.rows == ("faster",)
    with pytest.raises(ExperimentError, match=r"rows: expected one of .*, found 'slower'"):
        parse(text.replace("[faster]", "[slower]"), str(tmp_path / "here" / "own.yaml"))


def test_three_senders_send_to_all_others() -> None:
    one = part_of("streams: [{packets_per_s: 5}]\n    senders: 3\n    participants: [3, 5]")
    cells = [cell for place in one.places() for cell in one.cells(place, {})]
    assert {(cell.participants, cell.senders) for cell in cells} == {(3, 3), (5, 3)}
    found = sendings_of(one, OnePort(5), cell_of(5, senders=3))
    assert [sending.stream.sender.number for sending in found] == [1, 2, 3]
    assert {sending.n_viewers for sending in found} == {4}
    assert viewer_numbers(one.streams[0], 2, 5) == [1, 3, 4, 5]
    with pytest.raises(ExperimentError, match="participants: expected 3 or more, found 2"):
        part_of("streams: [{packets_per_s: 5}]\n    senders: 3\n    participants: [2]")


def pcap(order: str, magic: int, unit_ns: int) -> bytes:
    """A capture with the first 60 bytes of three frames."""
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 60, 1)
    for time_ns, length in ((5_000_000_000, 1200), (5_002_000_000, 60), (5_001_000_000, 900)):
        captured = min(60, length)
        data += struct.pack(
            f"{order}IIII", time_ns // 10**9, time_ns % 10**9 // unit_ns, captured, length
        )
        data += bytes(captured)
    return data


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_a_capture_is_a_load(tmp_path: Path, order: str, magic: int, unit_ns: int) -> None:
    (tmp_path / "call.pcap").write_bytes(pcap(order, magic, unit_ns))
    file = tmp_path / "own.yaml"
    file.write_text(text_of(f"{P4}, streams: [{{pcap: call.pcap}}]"))
    folder = Folder.create(tmp_path / "results", file.read_text(), str(file), NOW)
    (tmp_path / "call.pcap").unlink()
    (part,) = Folder.open(folder.path).experiment.loads
    (sending,) = sendings_of(part, OnePort(2), cell_of(2))
    # The trace has the frames in order of time, and its times start at 0. A frame that is too short
    # for the meter's mark is made as long as the mark needs.
    assert sending.packets == Trace(((0, 1200), (1_000_000, 900), (2_000_000, 70)))
    with pytest.raises(ExperimentError, match=r"a: pcap: .*call.pcap: .*No such file"):
        parse(file.read_text(), str(file))


@pytest.mark.parametrize("data", [b"", b"GIF89a" * 9, pcap("<", 0xA1B2C3D4, 1000)[:-70]])
def test_what_is_no_capture_is_told(data: bytes) -> None:
    with pytest.raises(PcapError):
        times_and_lengths(data)


def test_jumbo_frames_have_a_larger_mtu_and_others_the_usual_one() -> None:
    def site(streams: str) -> int:
        text = text_of(f"{P4}, streams: {streams}")
        experiment = parse(text, "x.yaml")
        return experiment.site(experiment.loads[0]).mtu_bytes

    assert site("[{packets_per_s: 9}]") == 1500
    assert site("[{packets_per_s: 9, frame_len_bytes: 9014}]") == 9000


def test_other_processors_are_those_that_rows_see(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text_of(STEADY, more="processors: {sfu: 1, load: 0}\n"))

    class ExecutedError(Exception):
        pass

    def execute(program: str, argv: list[str]) -> None:
        raise ExecutedError(argv)

    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setenv("REPRISE_SFU_CPU", "0")
    monkeypatch.setenv("REPRISE_LOAD_CPU", "1")
    with pytest.raises(ExecutedError):
        main(["run", str(file)])
    cpus = "from lab.sites import LOAD_CPU, SFU_CPU; print(SFU_CPU, LOAD_CPU)"
    assert run([sys.executable, "-c", cpus]).split() == ["1", "0"]
    with pytest.raises(ExperimentError, match="expected two processors, found 1 for both"):
        parse(file.read_text().replace("load: 0", "load: 1"), "own.yaml")
    file.write_text(file.read_text().replace("load: 0", "load: 4000"))
    assert main(["run", str(file)]) == 2


def test_interfaces_of_the_machine_are_taken_and_given_back(
    namespaces: None, system_root: None, tmp_path: Path
) -> None:
    """A veth pair stands for two interfaces with a cable."""
    ends = (f"lab-a{os.getpid() % 10**6}", f"lab-b{os.getpid() % 10**6}")
    run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]])
    try:
        macs = [Path(f"/sys/class/net/{one}/address").read_text().strip() for one in ends]
        site = OnePort(3)
        site.real = ends
        with site:
            assert (site.links[0].host_mac, site.links[0].sfu_mac) == tuple(macs)
            assert site.participant(2).mac == macs[0]
            assert macs[0] in site.hosts.run(["ip", "link", "show", "h1"])
            assert macs[1] in site.sfu.run(["ip", "link", "show", "p1"])
        for one in ends:
            assert "UP" in run(["ip", "-brief", "link", "show", one])
    finally:
        run(["ip", "link", "delete", ends[0]])
    text = text_of(STEADY, more="interfaces: {hosts: eth1, sfu: eth2}\n")
    assert parse(text, "x.yaml").interfaces is not None
    with pytest.raises(ExperimentError, match="interfaces: expected loads on one port only"):
        parse(text.replace("viewers: 1", "viewers: 1, topology: port_per_host"), "x.yaml")


def test_jumbo_frames_come_through(
    namespaces: None, system_root: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "jumbo.yaml"
    streams = "[{packets: 20, packets_per_s: 100, frame_len_bytes: 9000}]"
    part = f"part: a, rows: [p4_replication], viewers: 2, runs: 1, streams: {streams}"
    file.write_text(text_of(part))
    assert main(["run", str(file), "--results", str(tmp_path / "results")]) == 0, (
        capsys.readouterr()
    )
