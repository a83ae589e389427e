"""An experiment is a YAML file, such as those in `lab/experiments/`.

The types here describe such a file and check it.

An experiment has parts. A part names rows (SFUs) and the load that they get. A part with `sweep`
stands for several parts, one for each value that `sweep` lists for a field. Any field can be swept,
by its path (`streams.0.bitrate_mbps`). `python -m lab.experiment` prints the schema as JSON.
"""

import copy
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    model_validator,
)

from lab import media
from lab.added import RowsError, add_rows
from lab.meter import FRAME_LEN_MAX_BYTES, FRAME_LEN_MIN_BYTES
from lab.pcap import PcapError, times_and_lengths
from lab.rows import ROWS
from lab.rows.row import Variant
from lab.sites import MTU_BYTES, SFU_UDP_PORT, SITES, Site

FOLDER = Path(__file__).with_name("experiments")
ETHERNET_BYTES = 14
TRIAL_S = 60.0
"""RFC 2544's duration of a trial (section 24)."""
PERCENTILES = (99.0, 99.9)
"""Which percentiles of a delay may have a limit: those that runs.csv has."""
_SPAN = re.compile(r"(\d+)\.\.(\d+)(?: by (\d+))?")


class ExperimentError(ValueError):
    """The file is not valid. The message says what was expected, what was found, and where."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _numbers(value: object) -> object:
    """Makes a list of numbers from `3`, `1..11`, `2..50 by 4`, or a list of these."""
    if isinstance(value, list):
        return [number for one in value for number in _as_list(_numbers(one))]
    if isinstance(value, str):
        found = _SPAN.fullmatch(value.strip())
        first, last, step = (int(part or 1) for part in found.groups()) if found else (1, 0, 1)
        if first > last or step == 0:
            raise ValueError(f"expected a number, 1..11 or 2..50 by 4, found {value!r}")
        return list(range(first, last + 1, step))
    return _as_list(value)


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _percentile(value: float) -> float:
    if value not in PERCENTILES:
        known = " or ".join(f"{one:g}" for one in PERCENTILES)
        raise ValueError(f"expected {known}, found {value:g}")
    return value


FrameLen = Annotated[int, Field(ge=FRAME_LEN_MIN_BYTES, le=FRAME_LEN_MAX_BYTES)]
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
_FrameLens = Annotated[
    Annotated[FrameLen, Tag("one")] | Annotated[tuple[FrameLen, FrameLen], Tag("between")],
    Discriminator(lambda value: "between" if isinstance(value, list | tuple) else "one"),
]


class StreamOf(_Model):
    """A stream that each sender sends: at a steady rate, at random, or as a trace of real media."""

    name: str = "stream"
    udp_port: Annotated[int, Field(ge=1024, le=65535)] = SFU_UDP_PORT
    viewers: Literal["all", "half"] = "all"
    """The viewers: all participants but the sender, or every second participant but the sender."""
    bitrate_mbps: Annotated[float, Field(gt=0)] | None = None
    """A steady rate, of whole Ethernet frames without FCS."""
    packets_per_s: Annotated[float, Field(gt=0)] | None = None
    """A steady rate."""
    frame_len_bytes: _FrameLens = 1400
    """The length of frames without FCS; two numbers: at random between these."""
    interval_ms: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] | None = None
    """The time between packets, at random between these two."""
    media: str | None = None
    """The name of a trace in `lab/media/`."""
    pcap: _FileName | None = None
    """A capture in the folder of the experiment's file. Its frames give the times and lengths."""
    _folder: Path = PrivateAttr(default=Path())
    packets: Annotated[int, Field(ge=1)] | dict[int, Annotated[int, Field(ge=1)]] | None = None
    """How many packets the stream has, or a mapping from the number of participants to this number.
    Without it the stream lasts as long as the part's `duration_s`."""

    def packets_at(self, participants: int) -> int | None:
        """How many packets a stream has with this many participants; None if it has no limit."""
        if isinstance(self.packets, dict):
            return self.packets[participants]
        return self.packets

    @property
    def pcap_file(self) -> Path:
        return self._folder / (self.pcap or "")

    @property
    def packets_max(self) -> int:
        """The largest number of packets, over all numbers of participants; 0 without a limit."""
        if isinstance(self.packets, dict):
            return max(self.packets.values())
        return self.packets or 0

    @model_validator(mode="after")
    def _has_one_pace(self) -> Self:
        paces = (self.bitrate_mbps, self.packets_per_s, self.interval_ms, self.media, self.pcap)
        if sum(pace is not None for pace in paces) != 1:
            raise ValueError(
                "expected one of bitrate_mbps, packets_per_s, interval_ms, media and pcap"
            )
        for name in ("interval_ms", "frame_len_bytes"):
            between = getattr(self, name)
            if isinstance(between, tuple) and between[0] > between[1]:
                raise ValueError(f"{name}: expected the smaller one first, found {list(between)}")
        if self.media is not None and self.media not in media.names():
            known = ", ".join(media.names())
            raise ValueError(f"media: expected one of {known}, found {self.media!r}")
        if isinstance(self.frame_len_bytes, tuple) and self.interval_ms is None:
            raise ValueError("frame_len_bytes: two of them need interval_ms")
        return self


class Search(_Model):
    """Searches for the largest size that a row serves.

    The size grows until the row breaks. Then the gap between the last good size and the broken size
    is halved.
    """

    first: Annotated[int, Field(ge=1)] = 1
    most: Annotated[int, Field(ge=1, le=4096)] = 4096
    growth: Annotated[int, Field(ge=2, le=16)] = 2
    halvings: Annotated[int, Field(ge=0, le=12)] = 3

    @model_validator(mode="after")
    def _is_span(self) -> Self:
        if self.first > self.most:
            raise ValueError(f"most: expected {self.first} or more, found {self.most}")
        return self

    def next(self, broken: Mapping[int, bool]) -> int | None:
        """The size to try next, or None. `broken` says for each size whether the row broke."""
        good, bad, size = 0, 0, self.first
        while size in broken and not broken[size] and size < self.most:
            good, size = size, min(self.growth * size, self.most)
        if size not in broken:
            return size
        if not broken[size]:
            return None
        bad = size
        for _ in range(self.halvings):
            middle = (good + bad) // 2
            if middle in (good, bad):
                return None
            if middle not in broken:
                return middle
            good, bad = (good, middle) if broken[middle] else (middle, bad)
        return None


Size = Annotated[int, Field(ge=1, le=4096)]


_Sizes = Annotated[
    Annotated[
        Annotated[Search, Tag("search")] | Annotated[tuple[Size, ...], Tag("sizes")],
        Discriminator(lambda value: "search" if isinstance(value, dict | Search) else "sizes"),
    ],
    BeforeValidator(lambda value: value if isinstance(value, dict | Search) else _numbers(value)),
]


class Part(_Model):
    """A part whose rows all get the same load."""

    part: Annotated[str, Field(pattern=r"^[a-z0-9_.-]+$")]
    about: str = ""
    topology: Literal["one_port", "port_per_host"] = "one_port"
    rows: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
    variants: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    """Variants, each as `ENGINE PORT WAIT`, for rows with several. If empty, each row has its usual
    variant."""
    senders: Annotated[
        Annotated[int, Field(ge=1, le=64)] | Literal["everybody"],
        BeforeValidator(lambda value: 1 if value == "one" else value),
    ] = 1
    """Who sends: `one`, `everybody`, or a number n: the first n participants."""
    viewers: _Sizes = ()
    """With one sender: how many viewers it has. One number or several, or `{first:, most:}` to
    search for the largest number that each row can serve."""
    participants: _Sizes = ()
    """With more senders: the numbers of participants, in the same form."""
    streams: Annotated[tuple[StreamOf, ...], Field(min_length=1)]
    duration_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    runs: Annotated[int, Field(ge=1, le=100)] = 3
    seed: int = 1
    limit_ms: Annotated[float, Field(gt=0)] = 150.0
    """A row counts as broken if it loses copies, or if a percentile of its last copies' delay is
    above this limit. 150 ms is ITU-T G.114's bound for conversations; musicians need 20 ms."""
    limit_percentile: Annotated[float, AfterValidator(_percentile)] = 99.0
    """The percentile that `limit_ms` bounds."""
    stop_when_broken: bool = False
    """Whether larger sizes are left out once a row is broken."""
    split: bool = False
    """Whether a sender sends each packet in one of its streams in turn, instead of in each
    stream."""

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        for name in self.rows:
            if name not in ROWS:
                raise ValueError(f"rows: expected one of {', '.join(ROWS)}, found {name!r}")
            if self.topology not in ROWS[name].topologies:
                known = ", ".join(ROWS[name].topologies)
                raise ValueError(f"topology: {name} has {known}, found {self.topology!r}")
        _check_once("rows", self.rows)
        self._check_variants()
        self._check_sizes()
        ports = [stream.udp_port for stream in self.streams]
        if len(set(ports)) != len(ports):
            raise ValueError(f"streams: expected a udp_port each, found {ports}")
        self._check_packets()
        return self

    def _check_packets(self) -> None:
        for stream in self.streams:
            if isinstance(stream.packets, dict):
                sizes = self.participants or self.viewers
                known = () if isinstance(sizes, Search) else sizes
                wanted = {size + self._alone for size in known}
                if not known or not wanted <= stream.packets.keys():
                    raise ValueError(
                        "streams: packets: expected a number for each number of participants, "
                        f"found {sorted(stream.packets)}"
                    )
        first, *others = self.streams
        paced = {"interval_ms", "frame_len_bytes", "packets"}
        if self.split and (
            first.interval_ms is None
            or any(
                one.model_dump(include=paced) != first.model_dump(include=paced) for one in others
            )
        ):
            raise ValueError("split: expected streams of the same interval_ms, lengths and packets")

    def _check_variants(self) -> None:
        """Rejects unknown variants: a misspelt one must not silently leave a row out."""
        having = [name for name in self.rows if len(ROWS[name].variants) > 1]
        every = {str(one) for name in having for one in ROWS[name].variants}
        for variant in self.variants:
            if variant not in every:
                known = ", ".join(sorted(every)) or "none, for no row has a choice"
                raise ValueError(f"variants: expected some of {known}, found {variant!r}")
        for name in having:
            if not self.variants_of(name):
                known = ", ".join(str(one) for one in ROWS[name].variants)
                raise ValueError(
                    f"variants: {name} has {known}, found none of them in {list(self.variants)}"
                )

    def _check_sizes(self) -> None:
        sizes, others = (
            (self.viewers, self.participants)
            if self.senders == 1
            else (self.participants, self.viewers)
        )
        if not sizes or others:
            raise ValueError("expected viewers with `senders: one`, participants with more senders")
        least = sizes.first if isinstance(sizes, Search) else min(sizes)
        least_senders = 2 if self.senders == "everybody" else self.senders
        if self.participants and least < least_senders:
            raise ValueError(f"participants: expected {least_senders} or more, found {least}")
        if not isinstance(sizes, Search):
            _check_once("viewers" if self.senders == 1 else "participants", sizes)

    def variants_of(self, row: str) -> list[Variant]:
        """The variants in which the part runs the row."""
        known = ROWS[row].variants
        if not self.variants or len(known) == 1:
            return [known[0]]
        return [one for one in known if str(one) in self.variants]

    @property
    def frame_len_max_bytes(self) -> int:
        longest = 0
        for of in self.streams:
            if of.pcap:
                lengths = times_and_lengths(of.pcap_file.read_bytes())
                longest = max(longest, *(length for _, length in lengths))
            elif isinstance(of.frame_len_bytes, int):
                longest = max(longest, of.frame_len_bytes)
            else:
                longest = max(longest, *of.frame_len_bytes)
        return longest

    @property
    def size_max(self) -> int:
        """The largest number of participants that a run of the part may have."""
        sizes = self.participants or self.viewers
        return (sizes.most if isinstance(sizes, Search) else max(sizes)) + self._alone

    @property
    def _alone(self) -> int:
        """How many participants a size leaves out: the sender, if sizes are numbers of viewers."""
        return 1 if self.senders == 1 else 0

    def sizes(self, broken: Mapping[int, bool]) -> list[int]:
        """The numbers of participants to run, in order. `broken` has the results so far."""
        sizes = self.participants or self.viewers
        if isinstance(sizes, Search):
            by_size = {size - self._alone: is_broken for size, is_broken in broken.items()}
            found = [*broken]
            if (size := sizes.next(by_size)) is not None:
                found.append(size + self._alone)
            return found
        wanted = [size + self._alone for size in sizes]
        if not self.stop_when_broken:
            return wanted
        worst = min((size for size in wanted if broken.get(size)), default=max(wanted))
        return [size for size in wanted if size <= worst]

    def cells(self, place: "Place", broken: Mapping[int, bool]) -> list["Cell"]:
        """Lists the runs of a place. The sizes can depend on `broken`, the results so far."""
        return [
            Cell(place, size, size if self.senders == "everybody" else self.senders, run)
            for size, run in itertools.product(self.sizes(broken), range(1, self.runs + 1))
        ]

    def places(self) -> list["Place"]:
        return [
            Place(self.part, self.topology, row, variant)
            for row in self.rows
            for variant in self.variants_of(row)
        ]


def _check_once(name: str, values: Sequence[object]) -> None:
    twice = [str(value) for value in dict.fromkeys(values) if values.count(value) > 1]
    if twice:
        raise ValueError(f"{name}: expected each once, found {', '.join(twice)} twice")


class Benchmark(_Model):
    """A part that runs a benchmark (`lab/study/suite.py`)."""

    part: Annotated[str, Field(pattern=r"^[a-z0-9_.-]+$")]
    about: str = ""
    measure: Literal[
        "pipeline",
        "growth",
        "fanout",
        "overload",
        "priority",
        "pktswitch",
        "kernel",
        "switching",
        "scaling",
        "pisces",
        "neobft",
        "mixers",
        "joins",
    ]
    only: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    """Only what has one of these words in its name is measured; without words, everything."""
    fanouts: Annotated[tuple[Size, ...], BeforeValidator(_numbers)] = ()
    """Copies of each packet, for benchmarks that let these be chosen."""
    rounds: Annotated[int, Field(ge=0)] = 0
    """How often the benchmark is repeated; 0: its usual number."""
    trial_s: Annotated[float, Field(ge=0.1, le=3600)] = TRIAL_S
    """The duration of deciding trials, for benchmarks that search for rates."""
    rows: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    """Rows of `rows_from` that `fanout` measures beside the project's rows."""
    short: bool = False
    """Whether the benchmark runs in its shortest form, which has all that the report shows."""

    @property
    def file(self) -> str:
        """The file that the benchmark writes last. Once it exists, the benchmark is done."""
        return f"{self.measure}.csv"


def _kind(value: object) -> str:
    is_benchmark = isinstance(value, Benchmark) or (isinstance(value, dict) and "measure" in value)
    return "benchmark" if is_benchmark else "load"


class Processors(_Model):
    """The processors on which the row and the load run."""

    sfu: Annotated[int, Field(ge=0, le=4095)] = 0
    load: Annotated[int, Field(ge=0, le=4095)] = 1

    @model_validator(mode="after")
    def _are_two(self) -> Self:
        if self.sfu == self.load:
            raise ValueError(f"expected two processors, found {self.sfu} for both")
        return self


class Interfaces(_Model):
    """Two interfaces of the machine, joined by a cable or a switch, in place of a veth pair."""

    hosts: Annotated[str, Field(pattern=r"^[^/\s]{1,15}$")]
    sfu: Annotated[str, Field(pattern=r"^[^/\s]{1,15}$")]


class Experiment(_Model):
    """The content of an experiment's file."""

    experiment: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
    about: str
    source: str
    rows_from: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+\.py$")] = ""
    """A Python file in this file's folder that defines further rows (lab/rows/README.md)."""
    files: Annotated[tuple[_FileName, ...], BeforeValidator(_as_list)] = ()
    """Files in this file's folder that `rows_from` or a load needs; a study gets copies."""
    processors: Processors = Processors()
    """The processors on which the row and the load run."""
    interfaces: Interfaces | None = None
    """Interfaces of the machine that take the place of the veth pair, for loads on one port."""
    parts: Annotated[
        tuple[
            Annotated[
                Annotated[Part, Tag("load")] | Annotated[Benchmark, Tag("benchmark")],
                Discriminator(_kind),
            ],
            ...,
        ],
        Field(min_length=1),
    ]

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        names = [part.part for part in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"parts: expected names of their own, found {', '.join(twice)} twice")
        _check_once("measure", [part.measure for part in self.benchmarks])
        several = [part.part for part in self.loads if part.topology != "one_port"]
        if self.interfaces and (several or self.benchmarks):
            others = [*several, *(part.part for part in self.benchmarks)]
            raise ValueError(
                f"interfaces: expected loads on one port only, found {', '.join(others)}"
            )
        for part in self.benchmarks:
            for row in part.rows:
                if row not in ROWS:
                    raise ValueError(f"rows: expected one of {', '.join(ROWS)}, found {row!r}")
            if part.rows and part.measure != "fanout":
                raise ValueError(f"rows: only fanout takes rows of one's own, found {part.measure}")
        return self

    @property
    def beside(self) -> list[str]:
        """The names of the files that the experiment needs, all in the folder of its own file."""
        pcaps = [of.pcap for part in self.loads for of in part.streams if of.pcap]
        return list(dict.fromkeys(filter(None, [self.rows_from, *self.files, *pcaps])))

    @property
    def loads(self) -> list[Part]:
        return [part for part in self.parts if isinstance(part, Part)]

    @property
    def benchmarks(self) -> list[Benchmark]:
        return [part for part in self.parts if isinstance(part, Benchmark)]

    def places(self) -> list["Place"]:
        return [place for part in self.loads for place in part.places()]

    def site(self, part: Part) -> Site:
        site = SITES[part.topology](part.size_max)
        site.mtu_bytes = max(MTU_BYTES, part.frame_len_max_bytes - ETHERNET_BYTES)
        if self.interfaces:
            site.real = (self.interfaces.hosts, self.interfaces.sfu)
        return site

    def part(self, name: str) -> Part:
        return next(part for part in self.loads if part.part == name)


@dataclass(frozen=True, slots=True)
class Place:
    """A place is a row in one of its variants, in one part of an experiment.

    All sizes and runs of a place have this set-up in common.
    """

    part: str
    topology: str
    row: str
    variant: Variant

    @property
    def key(self) -> tuple[str, str, str, str, str, str]:
        """The columns that are equal in all result rows of this place."""
        of = self.variant
        return (self.part, self.topology, self.row, of.engine, of.port, of.wait)

    @property
    def name(self) -> str:
        words = (self.part, self.row, str(self.variant).replace(" ", "-"))
        return "-".join(filter(None, words))

    def __str__(self) -> str:
        return f"{self.part}: {self.row} {self.variant}".strip()


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a place with a number of participants; `run` counts the repetitions from 1."""

    place: Place
    participants: int
    senders: int
    run: int

    @property
    def viewers(self) -> int:
        """The number of viewers of a stream that all other participants view."""
        return self.participants - 1

    @property
    def name(self) -> str:
        """The base name of the run's files. Names sort by size and run."""
        return f"{self.place.name}-{self.viewers:04d}viewers-run{self.run}"

    def __str__(self) -> str:
        return f"{self.place}, {self.viewers} viewers, run {self.run}"


class _Loader(yaml.SafeLoader):
    """Loads YAML and rejects a field that occurs twice: the first would silently be ignored."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [str(key.value) for key, _ in node.value]
        twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
        if twice:
            where = f"line {node.start_mark.line + 1}"
            raise ExperimentError(f"{where}: expected each field once, found {twice[0]} twice")
        return super().construct_mapping(node, deep)


def parse(
    text: str, name: str, *, is_quick: bool = False, original: Path | None = None
) -> Experiment:
    """Parses an experiment's file; with `is_quick` the short form that the fields `quick` describe.

    `name` is the path of the file: error messages begin with it, and the files that the experiment
    names are in the same folder. If `name` is a copy in a study's folder, `original` is the
    experiment's own file.
    """
    try:
        content = yaml.load(text, _Loader)
    except (yaml.YAMLError, ExperimentError) as error:
        raise ExperimentError(f"{name}: {error}") from None
    if not isinstance(content, dict):
        raise ExperimentError(f"{name}: expected a mapping with `experiment:`, found {content!r}")
    try:
        if isinstance(file := content.get("rows_from"), str) and Path(file).name == file:
            add_rows(Path(name).with_name(file), original.with_name(file) if original else None)
        parts = content.get("parts")
        if isinstance(parts, list):
            content["parts"] = _chosen(parts, name, is_quick=is_quick)
        experiment = Experiment.model_validate(content)
        for part in experiment.loads:
            for stream in part.streams:
                stream._folder = Path(name).parent
                _check_pcap(stream, part.part)
        return experiment
    except RowsError as error:
        raise ExperimentError(f"{name}: rows_from: {error}") from None
    except ValidationError as error:
        # A list that is too short only because an item is wrong is not reported as a second error.
        found = [one for one in error.errors() if one["type"] != "too_short" or not one["input"]]
        lines = [_where(one) for one in found]
        raise ExperimentError(f"{name}: " + f"\n{name}: ".join(lines)) from None


def _chosen(parts: list[object], name: str, *, is_quick: bool) -> list[object]:
    """The parts of a study, or of its short form, with sweeps expanded."""
    chosen = [one for part in parts for one in _quick(part, name, is_quick=is_quick)]
    if parts and not chosen:
        raise ExperimentError(f"{name}: there is no short form: every part says `quick: false`")
    return [one for part in chosen for one in _swept(part, name)]


def _check_pcap(stream: StreamOf, part: str) -> None:
    if stream.pcap is None:
        return
    try:
        times_and_lengths(stream.pcap_file.read_bytes())
    except (OSError, PcapError) as error:
        raise ExperimentError(f"{part}: pcap: {stream.pcap_file}: {error}") from None


def known() -> dict[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


_TAGS = ("load", "benchmark", "one", "between", "search", "sizes")
"""The words that pydantic adds to the path of an error where a field has a choice of types."""
_EXPECTED = {
    "missing": "expected, but missing",
    "extra_forbidden": "there is no such field",
    "model_type": "expected fields",
    "tuple_type": "expected a list",
    "too_short": "expected at least one",
    "string_type": "expected text",
    "string_pattern_mismatch": "expected a name of letters a-z, digits, _, . and -",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
}


def _where(error: Mapping[str, Any]) -> str:
    """Describes an error: the path of the field, what was expected there, and what was found."""
    place = ".".join(str(part) for part in error["loc"] if part not in _TAGS)
    plain = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "expected")
    said = _EXPECTED.get(error["type"], plain)
    has_more = error["type"] in ("missing", "extra_forbidden") or ", found " in said
    found = "" if has_more or isinstance(error["input"], dict) else f", found {error['input']!r}"
    return f"{place}: {said}{found}" if place else f"{said}{found}"


def _quick(part: object, name: str, *, is_quick: bool) -> list[object]:
    """In a quick study, the fields in `quick` replace the part's own fields.

    `quick: false` omits the part.
    """
    if not isinstance(part, dict) or "quick" not in part:
        return [part]
    plain = {key: value for key, value in part.items() if key != "quick"}
    quick = part["quick"]
    if quick is not False and not isinstance(quick, dict):
        raise ExperimentError(
            f"{name}: {part.get('part')}: quick: expected fields or false, found {quick!r}"
        )
    if not is_quick:
        return [plain]
    return [] if quick is False else [{**plain, **quick}]


def _swept(part: object, name: str) -> list[object]:
    if not isinstance(part, dict) or "sweep" not in part:
        return [part]
    sweep = part["sweep"]
    if not isinstance(sweep, dict) or not all(isinstance(v, list) and v for v in sweep.values()):
        raise ExperimentError(
            f"{name}: sweep: expected paths with a list of values, found {sweep!r}"
        )
    plain = {key: value for key, value in part.items() if key != "sweep"}
    swept: list[object] = []
    for values in itertools.product(*sweep.values()):
        one = copy.deepcopy(plain)
        for path, value in zip(sweep, values, strict=True):
            _set(one, path, value, name)
        words = [re.sub(r"[^a-z0-9_.]+", "_", str(value).lower()) for value in values]
        if "part" in one:
            one["part"] = "-".join([str(one["part"]), *words])
        swept.append(one)
    return swept


def _set(into: Any, path: str, value: object, name: str) -> None:
    *way, last = [int(word) if word.isdecimal() else word for word in path.split(".")]
    try:
        for word in way:
            into = into[word]
        into[last] = value
    except (KeyError, IndexError, TypeError):
        raise ExperimentError(f"{name}: sweep: {path!r} is no place in the part") from None


if __name__ == "__main__":
    print(json.dumps(Experiment.model_json_schema(), indent=1))
