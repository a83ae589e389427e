"""Random tables, a model of their look-ups (P4_16 1.2.5, section 14.2), and packets for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.model.types import (
    Bits,
    Bool,
    Enum,
    Type,
    any_value,
    from_bits,
    near,
    some_value,
    some_width,
    to_bits,
    typed,
    width,
)

KEYS_MOST = 5
ENTRIES_MOST = 9
PACKETS = 14
"""The number of packets for each table."""
DATA = Bits(64)


# What an entry requires of a key.


@dataclass(frozen=True)
class Value:
    value: int


@dataclass(frozen=True)
class Mask:
    value: int
    mask: int


@dataclass(frozen=True)
class Span:
    """A range that includes both ends, in the order of the key's type."""

    low: int
    high: int


@dataclass(frozen=True)
class Any:
    """Every value."""


Match = Value | Mask | Span | Any


def holds(match: Match, ty: Type, value: int) -> bool:
    match match:
        case Any():
            return True
        case Value(wanted):
            return value == wanted
        case Mask(wanted, mask):
            return to_bits(ty, value) & to_bits(ty, mask) == to_bits(ty, wanted) & to_bits(ty, mask)
        case Span(low, high):
            return low <= value <= high


def all_hold(matches: Sequence[Match], types: Sequence[Type], values: list[int]) -> bool:
    return all(holds(*one) for one in zip(matches, types, values, strict=True))


def prefix(ty: Type, length: int) -> int:
    n_bits = width(ty)
    return ((1 << length) - 1) << (n_bits - length)


# Keys.


@dataclass(frozen=True)
class Field:
    name: str
    ty: Type


@dataclass(frozen=True)
class Key:
    name: str
    ty: Type
    kind: str
    source: Field
    how: str
    numbers: tuple[int, ...] = ()

    def text(self) -> str:
        path = f"meta.{self.source.name}" if self.how == "metadata" else f"hdr.k.{self.source.name}"
        match self.how:
            case "cast":
                return f"({self.ty}){path}"
            case "slice":
                return f"{path}[{self.numbers[0]}:{self.numbers[1]}]"
            case "and" | "add":
                assert isinstance(self.ty, Bits)
                operator = "&" if self.how == "and" else "+"
                return f"{path} {operator} {typed(self.ty, self.numbers[0])}"
        return path

    def value(self, packet: dict[str, int]) -> int:
        value = packet[self.source.name]
        match self.how:
            case "cast":
                return from_bits(self.ty, to_bits(self.source.ty, value))
            case "slice":
                high, low = self.numbers
                return (to_bits(self.source.ty, value) >> low) & ((1 << (high - low + 1)) - 1)
            case "and":
                return from_bits(
                    self.ty, to_bits(self.ty, value) & to_bits(self.ty, self.numbers[0])
                )
            case "add":
                return from_bits(self.ty, value + self.numbers[0])
        return value

    def aim(self, wanted: int) -> int:
        """Returns the value of the source field for which the key's value is `wanted`, if any."""
        bits = to_bits(self.ty, wanted)
        match self.how:
            case "slice":
                return from_bits(self.source.ty, bits << self.numbers[1])
            case "add":
                return from_bits(self.source.ty, bits - self.numbers[0])
        return from_bits(self.source.ty, bits)


def some_key(rng: Random, name: str, fields: list[Field], has_lpm: bool) -> Key:
    source = rng.choice(fields)
    ty, how, numbers = source.ty, "field", tuple[int, ...]()
    if isinstance(ty, Bits):
        how = rng.choice(["field"] * 5 + ["metadata", "cast", "slice", "and", "add"])
        if how == "cast":
            ty = Bits(ty.width, not ty.signed)
        elif how == "slice":
            low = rng.randrange(ty.width)
            high = rng.randrange(low, ty.width)
            ty, numbers = Bits(high - low + 1), (high, low)
        elif how in {"and", "add"}:
            numbers = (some_value(rng, ty),)
    if isinstance(ty, Bits):
        kinds = ["exact", "ternary", "range", "optional"] + ([] if has_lpm else ["lpm"])
    else:
        kinds = ["exact", "ternary", "optional"]
    return Key(name, ty, rng.choice(kinds), source, how, numbers)


# Actions.


@dataclass(frozen=True)
class Action:
    """An action. It writes its number to one field, and its parameters to another field.

    Each parameter is widened as its type says, and overwrites the previous parameter in the field.
    """

    number: int
    parameters: tuple[Bits, ...]

    @property
    def name(self) -> str:
        return f"a{self.number}"

    def declaration(self) -> str:
        listed = ", ".join(f"{ty} p{at}" for at, ty in enumerate(self.parameters))
        parts = [f"{widened(ty, f'p{at}')}" for at, ty in enumerate(self.parameters)]
        data = " ^ ".join([*parts, f"{DATA.width}w{self.number}"])
        body = f"hdr.o.act = {self.number}; hdr.o.data = {data};"
        return f"    action {self.name}({listed}) {{ {body} }}\n"

    def data(self, values: tuple[int, ...]) -> int:
        result = self.number
        for value in values:
            result ^= DATA.wrap(value)
        return result


def widened(ty: Bits, text: str) -> str:
    """An expression that casts `text` to `DATA`'s type, with sign extension if `ty` is signed."""
    if not ty.signed:
        return f"({DATA}){text}"
    return f"({DATA})(int<{DATA.width}>){text}"


ACTIONS = (
    Action(1, (Bits(8),)),
    Action(2, (Bits(8, True),)),
    Action(3, ()),
    Action(4, (Bits(33), Bits(12, True))),
    Action(5, (Bits(1), Bits(64, True), Bits(64))),
)
Call = tuple[Action, tuple[int, ...]]


def some_call(rng: Random) -> Call:
    action = rng.choice(ACTIONS)
    return action, tuple(some_value(rng, ty) for ty in action.parameters)


# Tables.


@dataclass(frozen=True)
class Entry:
    """An entry. Of the entries that match, the least `rank` wins; of equal ranks, the oldest."""

    matches: tuple[Match, ...]
    call: Call
    rank: int
    is_program: bool
    number: int | None = None
    """The priority as it is written in the program or in the control plane's command."""


@dataclass
class Table:
    name: str
    keys: list[Key]
    style: str
    entries: list[Entry] = field(default_factory=list)
    default: Call = (ACTIONS[2], ())
    new_default: Call | None = None
    properties: list[str] = field(default_factory=list)

    @property
    def is_ranked(self) -> bool:
        """Whether several entries may match, so that their order counts."""
        return any(key.kind in {"ternary", "range", "optional"} for key in self.keys)

    def look_up(self, packet: dict[str, int]) -> tuple[Call, bool]:
        values = [key.value(packet) for key in self.keys]
        types = [key.ty for key in self.keys]
        hits = [entry for entry in self.entries if all_hold(entry.matches, types, values)]
        if not hits:
            return self.new_default or self.default, False
        if self.is_ranked:
            return min(hits, key=lambda entry: entry.rank).call, True
        return max(hits, key=self.prefix_length).call, True

    def prefix_length(self, entry: Entry) -> int:
        """The prefix length of the entry's `lpm` key; 0 if the table has none."""
        for match, key in zip(entry.matches, self.keys, strict=True):
            if key.kind == "lpm":
                if isinstance(match, Mask):
                    return to_bits(key.ty, match.mask).bit_count()
                return 0 if isinstance(match, Any) else width(key.ty)
        return 0


def some_match(rng: Random, key: Key) -> Match:
    """Makes what an entry requires of a key: random, but allowed by the key's match kind."""
    ty = key.ty
    if not isinstance(ty, Bits):
        if key.kind != "exact" and rng.random() < 0.25:
            return Any()
        if isinstance(ty, Enum):
            return Value(rng.choice(ty.members)[1])
        return Value(rng.random() < 0.5)
    value = some_value(rng, ty)
    if key.kind == "exact":
        return Value(value)
    if rng.random() < 0.12:
        return Any()
    match key.kind:
        case "lpm":
            mask = ty.wrap(prefix(ty, rng.randint(0, ty.width)))
            return Mask(ty.wrap(value & mask), mask) if rng.random() < 0.85 else Value(value)
        case "ternary":
            masks = [rng.getrandbits(ty.width), prefix(ty, rng.randint(0, ty.width))]
            mask = ty.wrap(rng.choice(masks))
            return Mask(ty.wrap(value & mask), mask) if rng.random() < 0.75 else Value(value)
        case "range":
            if rng.random() < 0.15:
                return Value(value)
            other = rng.choice(
                [some_value(rng, ty), ty.saturate(value + rng.randint(0, 9)), ty.high, ty.low]
            )
            return Span(min(value, other), max(value, other))
    return Value(value)


def some_fields(rng: Random) -> tuple[list[Field], list[Enum]]:
    enums = []
    for at in range(2):
        base = Bits(rng.choice([3, 8, 16]), rng.random() < 0.5)
        numbers = sorted({some_value(rng, base) for _ in range(4)})
        members = tuple((f"M{n}", number) for n, number in enumerate(numbers))
        enums.append(Enum(f"E{at}", members, base))
    bits = [Bits(some_width(rng), rng.random() < 0.55) for _ in range(rng.randint(4, 9))]
    types: list[Type] = [*bits, Bits(8, True), Bits(8), Bool(), *enums]
    return [Field(f"f{at}", ty) for at, ty in enumerate(types)], enums


def canonical(entry: tuple[Match, ...], keys: list[Key]) -> tuple[object, ...]:
    """Returns equal values for entries that a table with exact and `lpm` keys takes for equal."""
    parts: list[object] = []
    for match, key in zip(entry, keys, strict=True):
        if key.kind == "range" and isinstance(key.ty, Bits):
            everything = Span(key.ty.low, key.ty.high)
            one = Span(match.value, match.value) if isinstance(match, Value) else match
            parts.append(everything if isinstance(one, Any) else one)
            continue
        match match:
            case Any():
                parts.append((0, 0))
            case Value(value):
                parts.append((to_bits(key.ty, value), (1 << width(key.ty)) - 1))
            case Mask(value, mask):
                parts.append((to_bits(key.ty, value), to_bits(key.ty, mask)))
            case Span():
                parts.append(match)
    return tuple(parts)


def some_table(rng: Random, at: int, fields: list[Field]) -> Table:
    """A random table with entries of the program, of the control plane, or of both."""
    keys: list[Key] = []
    for number in range(rng.choice([1, 1, 2, 2, 3, 4, KEYS_MOST])):
        keys.append(some_key(rng, f"k{number}", fields, any(key.kind == "lpm" for key in keys)))
    style = rng.choice(["const", "const", "initial", "control", "control", "both"])
    table = Table(f"t{at}", keys, style, default=some_call(rng))
    if rng.random() < 0.3:
        table.new_default = some_call(rng)
    count = rng.randint(1, ENTRIES_MOST)
    matches: list[tuple[Match, ...]] = []
    seen = set()
    for _ in range(count):
        # Half of the entries share all keys but one with earlier entries, so that they overlap.
        made = tuple(some_match(rng, key) for key in keys)
        if matches and rng.random() < 0.5:
            place = rng.randrange(len(keys))
            made = (*rng.choice(matches)[:place], made[place], *rng.choice(matches)[place + 1 :])
        if canonical(made, keys) not in seen:
            seen.add(canonical(made, keys))
            matches.append(made)
    n_program = {"const": len(matches), "initial": len(matches), "control": 0}.get(
        style, rng.randrange(len(matches))
    )
    if n_program == 0 and style == "both":
        table.style = style = "control"
    calls = [some_call(rng) for _ in matches]
    ranks, numbers = program_order(rng, table, n_program)
    # Of the control plane's entries the greatest priority wins; if equal, the older entry.
    for place, (match, call) in enumerate(zip(matches, calls, strict=True)):
        if place < n_program:
            table.entries.append(Entry(match, call, ranks[place], True, numbers[place]))
            continue
        number = rng.randint(1, 12) if n_program == 0 else rng.randint(1, 200)
        table.entries.append(Entry(match, call, -number, False, number))
    return table


def program_order(rng: Random, table: Table, count: int) -> tuple[list[int], list[int | None]]:
    """Returns the ranks of the program's entries, and the priorities that the program writes.

    The entry with the least rank wins. Section 14.2.1.4 of the P4_16 specification says how ranks
    follow from priorities. The annotation `@priority` comes from p4c and is for BMv2: the least
    number wins.
    """
    none: list[int | None] = [None] * count
    if table.style == "const" or not table.is_ranked:
        if table.is_ranked and table.style == "const" and rng.random() < 0.25:
            annotated = [rng.randint(1, 6) for _ in range(count)]
            return annotated, list(annotated)
        return list(range(count)), none
    largest_wins, delta = True, 1
    if rng.random() < 0.4:
        delta = rng.randint(1, 9)
        table.properties.append(f"priority_delta = {delta};")
    if table.style == "initial" and rng.random() < 0.4:
        largest_wins = rng.random() < 0.5
        table.properties.append(f"largest_priority_wins = {'true' if largest_wins else 'false'};")
    written = list(none)
    if rng.random() < 0.5:
        written = [
            rng.randint(100, 140) if at == 0 or rng.random() < 0.6 else None for at in range(count)
        ]
    priorities: list[int] = []
    for at in range(count):
        given = written[at]
        if given is not None:
            priorities.append(given)
        elif at == 0:
            priorities.append((count - 1) * delta + 1 if largest_wins else 1)
        else:
            priorities.append(priorities[-1] - delta if largest_wins else priorities[-1] + delta)
    if min(priorities, default=1) < 1:
        # A priority would be below 1: no priorities are written, and no properties about them.
        table.properties.clear()
        return [at - count for at in range(count)], none
    return [-number if largest_wins else number for number in priorities], written


# Text.


def value_text(rng: Random, ty: Type, value: int) -> str:
    """A value in the syntax of a program's entry."""
    if isinstance(ty, Bool):
        return "true" if value else "false"
    if isinstance(ty, Enum):
        return f"{ty.name}.{next(name for name, number in ty.members if number == value)}"
    return typed(ty, value) if rng.random() < 0.3 else str(value)


def match_text(rng: Random, match: Match, ty: Type) -> str:
    """A set of values in the syntax of a program's entry."""
    match match:
        case Any():
            return rng.choice(["_", "_", "default"])
        case Value(value):
            return value_text(rng, ty, value)
        case Mask(value, mask):
            return f"{value_text(rng, ty, value)} &&& {value_text(rng, ty, mask)}"
        case Span(low, high):
            return f"{value_text(rng, ty, low)} .. {value_text(rng, ty, high)}"


def call_text(call: Call) -> str:
    action, values = call
    pairs = zip(action.parameters, values, strict=True)
    return f"{action.name}({', '.join(typed(ty, value) for ty, value in pairs)})"


def table_text(rng: Random, table: Table) -> str:
    lines = [f"    table {table.name} {{", "        key = {"]
    lines += [f'            {key.text()}: {key.kind} @name("{key.name}");' for key in table.keys]
    lines += ["        }", "        actions = { a1; a2; a3; a4; a5; }"]
    lines.append(f"        default_action = {call_text(table.default)};")
    lines += [f"        {line}" for line in table.properties]
    listed = [entry for entry in table.entries if entry.is_program]
    if listed:
        lines.append(f"        {'const ' if table.style == 'const' else ''}entries = {{")
        for entry in listed:
            sets = [
                match_text(rng, m, k.ty) for m, k in zip(entry.matches, table.keys, strict=True)
            ]
            text = f"({', '.join(sets)})" if len(sets) > 1 or rng.random() < 0.5 else sets[0]
            before = behind = ""
            if entry.number is not None and table.style == "const":
                behind = f" @priority({entry.number})"
            elif entry.number is not None:
                before = f"priority = {entry.number}: "
            lines.append(f"            {before}{text}: {call_text(entry.call)}{behind};")
        lines.append("        }")
    lines.append("    }")
    return "\n".join(lines) + "\n"


def add_line(table: Table, entry: Entry) -> str:
    """The command of the packet test (STF) that adds an entry of the control plane."""
    parts = ["add", table.name]
    if table.is_ranked:
        assert entry.number is not None
        # A packet test counts priorities from 0, P4Runtime from 1.
        parts.append(str(entry.number - 1))
    for match, key in zip(entry.matches, table.keys, strict=True):
        n_bits = width(key.ty)
        match match:
            case Any():
                continue
            case Value(value):
                text = f"{to_bits(key.ty, value):#x}" + (f"/{n_bits}" if key.kind == "lpm" else "")
            case Mask(value, mask):
                bits = to_bits(key.ty, mask)
                if key.kind == "lpm":
                    text = f"{to_bits(key.ty, value):#x}/{bits.bit_count()}"
                else:
                    text = f"{to_bits(key.ty, value):#x}&&&{bits:#x}"
            case Span(low, high):
                text = f"{to_bits(key.ty, low):#x}..{to_bits(key.ty, high):#x}"
        parts.append(f"{key.name}:{text}")
    return " ".join([*parts, given(entry.call)])


def given(call: Call) -> str:
    """An action with its arguments, in the syntax of the packet test."""
    action, values = call
    pairs = zip(action.parameters, values, strict=True)
    arguments = [f"p{at}:{ty.bits(value):#x}" for at, (ty, value) in enumerate(pairs)]
    return f"{action.name}({', '.join(arguments)})"


@dataclass
class TableProgram:
    """A program with several tables. Each packet is looked up in one of them."""

    fields: list[Field]
    enums: list[Enum]
    tables: list[Table]

    @property
    def n_pad(self) -> int:
        return -sum(width(field.ty) for field in self.fields) % 8

    def text(self, rng: Random) -> str:
        pad = f"    bit<{self.n_pad}> pad;\n" if self.n_pad else ""
        fields = "".join(f"    {field.ty} {field.name};\n" for field in self.fields)
        enums = "".join(enum.declaration() for enum in self.enums)
        copies = "".join(
            f"        meta.{field.name} = hdr.k.{field.name};\n" for field in self.fields
        )
        actions = "".join(action.declaration() for action in ACTIONS)
        tables = "".join(table_text(rng, table) for table in self.tables)
        applied, standard = "", "inout standard_metadata_t standard"
        for at, table in enumerate(self.tables):
            hit = f"if ({table.name}.apply().hit) {{ hdr.o.hit = 1; }}"
            applied += f"        {'else ' if at else ''}if (hdr.o.which == {at}) {{ {hit} }}\n"
        return f"""#include <core.p4>
#include <v1model.p4>
{enums}header keys_t {{
{fields}{pad}}}
header out_t {{
    bit<8> which;
    bit<8> hit;
    bit<8> act;
    {DATA} data;
    bit<24> rest;
}}
struct headers_t {{ out_t o; keys_t k; }}
struct metadata_t {{
{fields}}}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, {standard}) {{
    state start {{ packet.extract(hdr.o); packet.extract(hdr.k); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, {standard}) {{
{actions}{tables}    apply {{
        standard.egress_spec = 1;
{copies}{applied}    }}
}}
control E(inout headers_t hdr, inout metadata_t meta, {standard}) {{ apply {{ }} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{
    apply {{ packet.emit(hdr.o); packet.emit(hdr.k); }}
}}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

    def packet(self, rng: Random, table: Table) -> dict[str, int]:
        """Makes a packet's fields, mostly at or next to an end of what an entry matches."""
        packet = {field.name: any_value(rng, field.ty) for field in self.fields}
        if rng.random() < 0.1:
            return packet
        entry = rng.choice(table.entries)
        for match, key in zip(entry.matches, table.keys, strict=True):
            target = at_edge(rng, match, key.ty)
            if target is not None:
                packet[key.source.name] = key.aim(target)
        return packet

    def test(self, rng: Random) -> str:
        lines = []
        for table in self.tables:
            lines += [add_line(table, entry) for entry in table.entries if not entry.is_program]
            if table.new_default:
                lines.append(f"setdefault {table.name} {given(table.new_default)}")
        for at, table in enumerate(self.tables):
            for _ in range(PACKETS):
                packet = self.packet(rng, table)
                (action, values), hit = table.look_up(packet)
                keys = self.bytes(packet).hex()
                lines.append(f"packet 0 {at:02x}0000 {0:016x} 000000 {keys}")
                data = action.data(values)
                found = f"{at:02x}{int(hit):02x}{action.number:02x}"
                lines.append(f"expect 1 {found} {data:016x} 000000 {keys} $")
        return "\n".join(lines) + "\n"

    def bytes(self, packet: dict[str, int]) -> bytes:
        bits, n_bits = 0, 0
        for field_ in self.fields:
            bits = bits << width(field_.ty) | to_bits(field_.ty, packet[field_.name])
            n_bits += width(field_.ty)
        return (bits << self.n_pad).to_bytes((n_bits + self.n_pad) // 8, "big")


def at_edge(rng: Random, match: Match, ty: Type) -> int | None:
    """Returns a value that `match` matches, often at an end, or a value next to such a value.

    Returns None if `match` matches every value.
    """
    base = ty.base if isinstance(ty, Enum) else ty
    if not isinstance(base, Bits):
        return match.value if isinstance(match, Value) else None
    match match:
        case Any():
            return None
        case Value(value):
            return near(rng, base, value) if rng.random() < 0.3 else value
        case Mask(value, mask):
            free = rng.getrandbits(base.width) & ~base.bits(mask)
            made = base.bits(value) | free
            if rng.random() < 0.2:
                made ^= 1 << rng.randrange(base.width)
            return base.wrap(made)
        case Span(low, high):
            inside = rng.randint(low, high)
            return rng.choice([near(rng, base, low), near(rng, base, high), inside])


def some_program(rng: Random, n_tables: int) -> TableProgram:
    fields, enums = some_fields(rng)
    return TableProgram(fields, enums, [some_table(rng, at, fields) for at in range(n_tables)])
