"""An experiment's file: what it may contain, and the messages about mistakes in it."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.experiment import Experiment, ExperimentError, Search, known, parse
from lab.rows import ROWS
from lab.rows.row import Variant

HEAD = "experiment: x\nabout: a\nsource: s\nparts:\n"
PART = "  - part: a\n    rows: [p4_replication]\n"
VIEWERS = "    viewers: 1\n"
STREAMS = "    streams: [{bitrate_mbps: 4}]\n"
EVERY_ROW = ", ".join(ROWS)


def experiment(parts: str, *, is_quick: bool = False) -> Experiment:
    return parse(HEAD + parts, "f.yaml", is_quick=is_quick)


def test_what_is_not_said_is_as_documented() -> None:
    (part,) = experiment(PART + VIEWERS + STREAMS).loads
    assert (part.topology, part.senders, part.duration_s, part.runs) == ("one_port", 1, 10, 3)
    assert (part.seed, part.limit_ms, part.stop_when_broken) == (1, 150, False)
    (stream,) = part.streams
    assert (stream.udp_port, stream.viewers, stream.frame_len_bytes) == (5004, "all", 1400)
    assert part.variants_of("p4_replication") == [Variant("native", "afpacket", "sleep")]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("3", [3]),
        ("1..4", [1, 2, 3, 4]),
        ("2..50 by 16", [2, 18, 34, 50]),
        ("2..5 by 2", [2, 4]),
        ("[1, 5..6, 9]", [1, 5, 6, 9]),
        ("7..7", [7]),
    ],
)
def test_sizes_are_numbers_and_spans(said: str, meant: list[int]) -> None:
    (part,) = experiment(f"{PART}{STREAMS}    viewers: {said}\n").loads
    assert part.viewers == tuple(meant)
    assert part.sizes({}) == [size + 1 for size in meant]


SILENT, SIZELESS = HEAD + PART + VIEWERS, HEAD + PART + STREAMS
WHOLE = SILENT + STREAMS
BAD: dict[str, str] = {
    "": "expected a mapping with `experiment:`, found None",
    "- 1": "expected a mapping with `experiment:`, found [1]",
    "experiment: x\nabout: a\nsource: s\n": "parts: expected, but missing",
    HEAD + "  []\n": "parts: expected at least one, found []",
    HEAD + "  - 5\n": "parts.0: expected fields, found 5",
    "experiment: A b\n" + WHOLE[14:]: "experiment: expected a name of letters a-z, digits, _, . "
    "and -, found 'A b'",
    WHOLE + "    foo: 1\n": "parts.0.foo: there is no such field",
    WHOLE + "    viewers: 1\n": "line 5: expected each field once, found viewers twice",
    HEAD + "  - part: a\n    rows: nope\n" + VIEWERS + STREAMS: f"parts.0: rows: expected one of "
    f"{EVERY_ROW}, found 'nope'",
    HEAD + "  - part: a\n    rows: []\n" + VIEWERS + STREAMS: "parts.0.rows: expected at least "
    "one, found []",
    HEAD + "  - part: a\n    rows: [userspace, userspace]\n" + VIEWERS + STREAMS: "parts.0: rows: "
    "expected each once, found userspace twice",
    WHOLE + "    topology: ring\n": "parts.0.topology: expected 'one_port' or 'port_per_host', "
    "found 'ring'",
    HEAD
    + "  - part: a\n    rows: p4_recirculation\n    topology: port_per_host\n"
    + VIEWERS
    + STREAMS: "parts.0: topology: p4_recirculation has one_port, found 'port_per_host'",
    SIZELESS: "parts.0: expected viewers with `senders: one`, participants with more senders",
    SIZELESS + "    viewers: 1\n    participants: 2\n": "parts.0: expected viewers with `senders: "
    "one`, participants with more senders",
    SIZELESS + "    viewers: 0\n": "parts.0.viewers.0: expected greater than or equal to 1, found "
    "0",
    SIZELESS + "    viewers: [2, 4097]\n": "parts.0.viewers.1: expected less than or equal to "
    "4096, found 4097",
    SIZELESS + "    viewers: x..3\n": "parts.0.viewers: expected a number, 1..11 or 2..50 by 4, "
    "found 'x..3'",
    SIZELESS + "    viewers: 5..3\n": "parts.0.viewers: expected a number, 1..11 or 2..50 by 4, "
    "found '5..3'",
    SIZELESS + "    viewers: 1..3 by 0\n": "parts.0.viewers: expected a number, 1..11 or 2..50 by "
    "4, found '1..3 by 0'",
    SIZELESS + "    viewers: 1.5\n": "parts.0.viewers.0: expected a whole number, found 1.5",
    SIZELESS + "    viewers: [1..3, 2]\n": "parts.0: viewers: expected each once, found 2 twice",
    SIZELESS + "    viewers: {first: 9, most: 5}\n": "parts.0.viewers: most: expected 9 or more, "
    "found 5",
    SIZELESS + "    viewers: {first: 0, growht: 2}\n": "parts.0.viewers.first: expected greater "
    "than or equal to 1, found 0\nf.yaml: parts.0.viewers.growht: there is no such field",
    SIZELESS + "    senders: everybody\n    participants: [1, 2]\n": "parts.0: participants: "
    "expected 2 or more, found 1",
    SIZELESS + "    senders: everybody\n    participants: {most: 8}\n": "parts.0: participants: "
    "expected 2 or more, found 1",
    SILENT: "parts.0.streams: expected, but missing",
    SILENT + "    streams: []\n": "parts.0.streams: expected at least one, found []",
    SILENT + "    streams: [{}]\n": "parts.0.streams.0: expected one of bitrate_mbps, "
    "packets_per_s, interval_ms, media and pcap",
    SILENT + "    streams: [{bitrate_mbps: 3, packets_per_s: 3}]\n": "parts.0.streams.0: expected "
    "one of bitrate_mbps, packets_per_s, interval_ms, media and pcap",
    SILENT + "    streams: [{media: mp3}]\n": "parts.0.streams.0: media: expected one of av1, "
    "h264, opus, vp8, found 'mp3'",
    SILENT + "    streams: [{bitrate_mbps: 0}]\n": "parts.0.streams.0.bitrate_mbps: expected "
    "greater than 0, found 0",
    SILENT + "    streams: [{bitrate_mbps: fast}]\n": "parts.0.streams.0.bitrate_mbps: expected a "
    "number, found 'fast'",
    SILENT + "    streams: [{bitrate_mbps: 3, frame_len_bytes: 43}]\n": "parts.0.streams.0."
    "frame_len_bytes: expected greater than or equal to 44, found 43",
    SILENT + "    streams: [{bitrate_mbps: 3, frame_len_bytes: [60, 80]}]\n": "parts.0.streams.0: "
    "frame_len_bytes: two of them need interval_ms",
    SILENT + "    streams: [{interval_ms: [1, 2], frame_len_bytes: [80, 60]}]\n": "parts.0.streams."
    "0: frame_len_bytes: expected the smaller one first, found [80, 60]",
    SILENT + "    streams: [{interval_ms: 5}]\n": "parts.0.streams.0.interval_ms: expected a list, "
    "found 5",
    SILENT + "    streams: [{bitrate_mbps: 3}, {bitrate_mbps: 4}]\n": "parts.0: streams: expected "
    "a udp_port each, found [5004, 5004]",
    WHOLE + "    runs: many\n": "parts.0.runs: expected a whole number, found 'many'",
    WHOLE + "    stop_when_broken: 7\n": "parts.0.stop_when_broken: expected true or false, found "
    "7",
    WHOLE + PART + VIEWERS + STREAMS: "parts: expected names of their own, found a twice",
    HEAD + "  - {part: a, measure: fanout}\n  - {part: b, measure: fanout}\n": "measure: expected "
    "each once, found fanout twice",
    HEAD + "  - {part: a, measure: speed}\n": "parts.0.measure: expected 'pipeline', 'growth', "
    "'fanout', 'overload', 'priority', 'pktswitch', 'kernel', 'switching', 'scaling', 'pisces', "
    "'neobft', 'mixers' or 'joins', found 'speed'",
    WHOLE + "    sweep: 3\n": "sweep: expected paths with a list of values, found 3",
    WHOLE + "    sweep: {runs: []}\n": "sweep: expected paths with a list of values, found "
    "{'runs': []}",
    WHOLE + "    sweep: {streams.4.x: [3]}\n": "sweep: 'streams.4.x' is no place in the part",
    WHOLE + "    quick: true\n": "a: quick: expected fields or false, found True",
    "rows_from: ../mine.py\n" + WHOLE: "rows_from: expected a name of letters a-z, digits, _, . "
    "and -, found '../mine.py'",
}


@pytest.mark.parametrize(("text", "says"), BAD.items())
def test_a_mistake_is_told_with_its_place_what_was_expected_and_found(text: str, says: str) -> None:
    with pytest.raises(ExperimentError) as error:
        parse(text, "f.yaml")
    assert str(error.value) == f"f.yaml: {says}"


def test_a_file_that_is_no_yaml_is_told_where() -> None:
    with pytest.raises(ExperimentError, match="line 1, column 5"):
        parse("a: [", "f.yaml")


@pytest.mark.parametrize(
    ("rows", "variants", "says"),
    [
        ("p4_replication", "native afpaket sleep", "found 'native afpaket sleep'"),
        ("userspace", "native", "expected some of none, for no row has a choice, found 'native'"),
    ],
)
def test_a_misspelt_variant_leaves_no_row_out_in_silence(
    rows: str, variants: str, says: str
) -> None:
    text = f"  - part: a\n    rows: [{rows}]\n    variants: [{variants}]\n{VIEWERS}{STREAMS}"
    with pytest.raises(ExperimentError, match=r"parts\.0: variants: ") as error:
        experiment(text)
    assert str(error.value).endswith(says)


def test_sweeps_make_a_part_of_each_combination_in_order() -> None:
    swept = experiment(
        f"{PART}{VIEWERS}{STREAMS}    sweep: {{streams.0.bitrate_mbps: [4, 2.5], runs: [1, 2]}}\n"
    )
    found = [(one.part, one.streams[0].bitrate_mbps, one.runs) for one in swept.loads]
    assert found == [
        ("a-4-1", 4, 1),
        ("a-4-2", 4, 2),
        ("a-2.5-1", 2.5, 1),
        ("a-2.5-2", 2.5, 2),
    ]


def test_the_short_form_replaces_fields_and_leaves_parts_out() -> None:
    text = (
        f"{PART}{STREAMS}    viewers: 1..9\n    quick: {{viewers: 2, runs: 1}}\n"
        f"{PART.replace('part: a', 'part: b')}{STREAMS}    viewers: 3\n    quick: false\n"
        f"{PART.replace('part: a', 'part: c')}{STREAMS}    viewers: 3\n"
    )
    assert [one.part for one in experiment(text).parts] == ["a", "b", "c"]
    short = experiment(text, is_quick=True).loads
    assert [(one.part, one.viewers, one.runs) for one in short] == [("a", (2,), 1), ("c", (3,), 3)]
    with pytest.raises(ExperimentError, match="there is no short form"):
        experiment(f"{PART}{VIEWERS}{STREAMS}    quick: false\n", is_quick=True)


@pytest.mark.parametrize("name", known())
def test_every_file_of_the_project_parses_in_both_forms(name: str) -> None:
    file = known()[name]
    whole, short = (parse(file.read_text(), str(file), is_quick=quick) for quick in (False, True))
    assert whole.experiment == short.experiment == name
    names = {part.part for part in whole.parts}
    assert {part.part for part in short.parts} <= names
    assert parse(file.read_text(), str(file)) == whole


def test_places_are_rows_in_their_variants_and_cells_their_runs_at_each_size() -> None:
    (part,) = experiment(
        "  - part: a\n    rows: [p4_replication, userspace]\n    runs: 2\n    viewers: [1, 3]\n"
        f"    variants: [native udp spin, interpreter udp sleep]\n{STREAMS}"
    ).loads
    assert [str(place) for place in part.places()] == [
        "a: p4_replication native udp spin",
        "a: p4_replication interpreter udp sleep",
        "a: userspace",
    ]
    cells = part.cells(part.places()[0], {})
    assert [(one.participants, one.senders, one.run) for one in cells] == [
        (2, 1, 1),
        (2, 1, 2),
        (4, 1, 1),
        (4, 1, 2),
    ]
    assert cells[3].name == "a-p4_replication-native-udp-spin-0003viewers-run2"
    assert (part.size_max, len({one.name for one in cells})) == (4, 4)


def test_with_everybody_sending_participants_are_the_senders() -> None:
    (part,) = experiment(
        f"{PART}{STREAMS}    senders: everybody\n    participants: [2, 5]\n    runs: 1\n"
    ).loads
    cells = part.cells(part.places()[0], {})
    assert [(one.participants, one.senders, one.viewers) for one in cells] == [(2, 2, 1), (5, 5, 4)]
    assert part.size_max == 5


def test_sizes_stop_after_the_first_that_breaks_where_that_is_said() -> None:
    (part,) = experiment(
        f"{PART}{STREAMS}    viewers: [1, 2, 4, 8]\n    stop_when_broken: true\n"
    ).loads
    assert part.sizes({}) == [2, 3, 5, 9]
    assert part.sizes({2: False, 3: True, 5: False}) == [2, 3]


def run_search(search: Search, is_broken: Callable[[int], bool]) -> dict[int, bool]:
    broken: dict[int, bool] = {}
    for _ in range(200):
        size = search.next(broken)
        if size is None:
            return broken
        assert size not in broken
        broken[size] = is_broken(size)
    raise AssertionError("the search does not end")


def test_a_search_finds_the_knee_as_closely_as_it_was_told_to() -> None:
    """Compares the search with its definition.

    Sizes grow until one breaks. Then the gap between the largest size that holds and the smallest
    that breaks is halved `halvings` times.
    """
    cases = itertools.product((1, 2, 5), (5, 64, 100), (2, 3), (0, 1, 3, 12), range(1, 110, 7))
    for first, most, growth, halvings, knee in cases:
        search = Search(first=first, most=most, growth=growth, halvings=halvings)
        broken = run_search(search, knee.__lt__)
        grown = [first]
        while grown[-1] <= knee and grown[-1] < most:
            grown.append(min(grown[-1] * growth, most))
        assert list(broken)[: len(grown)] == grown
        assert len(broken) <= len(grown) + halvings
        good = max((size for size, bad in broken.items() if not bad), default=0)
        bad = min((size for size, bad in broken.items() if bad), default=None)
        assert good <= knee
        if bad is None:
            assert good == most
            continue
        assert knee < bad
        gap = grown[-1] - (grown[-2] if len(grown) > 1 else 0)
        assert bad - good <= max(1, -(-gap // 2**halvings))


def test_a_search_ends_whatever_comes_of_its_sizes() -> None:
    chance = random.Random(7)
    for _ in range(200):
        search = Search(first=chance.randint(1, 9), most=chance.randint(9, 500))
        broken = run_search(search, lambda _: chance.random() < 0.4)
        assert max(broken) <= search.most


def test_a_searched_part_has_one_more_size_at_a_time() -> None:
    (part,) = experiment(
        f"{PART}{STREAMS}    viewers: {{first: 2, most: 8, halvings: 1}}\n    runs: 1\n"
    ).loads
    assert part.sizes({}) == [3]
    assert part.sizes({3: False}) == [3, 5]
    assert part.sizes({3: False, 5: True}) == [3, 5, 4]
    assert part.sizes({3: False, 5: True, 4: True}) == [3, 5, 4]
    assert part.size_max == 9


ROW = """
from lab.rows.row import Row
class {name}(Row):
    name, label, source = "{row}", "Mine", "me"
    def start(self): pass
    def subscribe(self, stream, viewers): pass
    def stop(self): pass
    pids = ()
"""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """The path of an experiment's file, beside which tests write a Python file with its own
    rows."""
    return tmp_path / "mine.yaml"


MINE = f"rows_from: mine.py\n{HEAD}  - part: a\n    rows: mine\n{VIEWERS}{STREAMS}"


def test_an_experiment_may_bring_rows_of_its_own(beside: Path) -> None:
    beside.with_name("mine.py").write_text(ROW.format(name="Mine", row="mine"))
    (part,) = parse(MINE, str(beside)).loads
    assert part.rows == ("mine",)
    assert ROWS["mine"].label == "Mine"
    # The file is loaded again after it was changed.
    beside.with_name("mine.py").write_text(ROW.format(name="Mine2", row="mine"))
    parse(MINE, str(beside))
    assert ROWS["mine"].__name__ == "Mine2"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (None, "expected a Python file, found none"),
        ("x = 1\n", "expected a class that is a lab.rows.row.Row, found none"),
        ("1 +\n", "SyntaxError: invalid syntax (mine.py, line 1)"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named"),
        (ROW.format(name="A", row="userspace"), "A.name: expected one of its own, found 'user"),
        (ROW.format(name="A", row="My row"), "A.name: expected letters a-z, digits and _, found"),
        (
            "from lab.rows.row import Row\nclass A(Row):\n    name = 'a'\n",
            "A: expected label, source, pids, start, stop, subscribe, but missing",
        ),
    ],
)
def test_a_file_of_rows_that_cannot_be_used_is_told_why(
    beside: Path, code: str | None, says: str
) -> None:
    file = beside.with_name("mine.py")
    if code is not None:
        file.write_text(code)
    with pytest.raises(ExperimentError) as error:
        parse(MINE, str(beside))
    assert str(error.value).startswith(f"{beside}: rows_from: {file}: {says}")
