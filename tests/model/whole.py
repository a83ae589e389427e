"""Makes whole random P4 programs, and packets for them with the expected output.

A program has blocks and tables around the random statements that `tests.model.programs` makes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from random import Random

from tests.model.programs import (
    HEADERS,
    MEMBERS,
    PACKETS,
    REGISTER_CELLS,
    STACK,
    STRUCTS,
    Block,
    Code,
    ExitError,
    Expr,
    Maker,
    Parameter,
    Place,
    ReturnError,
    Scalar,
    Scope,
    State,
    assigned,
    is_element,
    literal,
)
from tests.model.tables import Any, Mask, Match, Span, Value, all_hold
from tests.model.types import Bits, any_value, from_bits, near, some_value, to_bits, typed, width

TRANSITIONS = 4096
"""The most transitions into which the compiler expands one case of a `select`. BMv2's JSON has no
ranges: each range becomes prefixes, and a case becomes one transition for each combination of its
keys' prefixes. The compiler refuses a case that would become more transitions."""
PAYLOAD_BYTES = 70
"""The number of random bytes after a packet's first header: enough for every other header."""


@dataclass
class Layout:
    """A header type. Its fields fill whole bytes."""

    name: str
    fields: list[tuple[str, Scalar]]

    @property
    def n_bytes(self) -> int:
        return sum(width(ty) for _, ty in self.fields) // 8

    def text(self) -> str:
        lines = [f"    {ty} {name};" for name, ty in self.fields]
        return f"header {self.name} {{\n" + "\n".join(lines) + "\n}\n"

    def extract(self, state: State, header: str, data: bytes) -> None:
        bits, left = int.from_bytes(data[: self.n_bytes], "big"), 8 * self.n_bytes
        for name, ty in self.fields:
            left -= width(ty)
            state.values[f"{header}.{name}"] = from_bits(ty, bits >> left & ((1 << width(ty)) - 1))
        state.valid[header] = True

    def emit(self, state: State, header: str) -> bytes:
        """The bytes of a header; no bytes if it is not valid."""
        if not state.valid[header]:
            return b""
        bits = 0
        for name, ty in self.fields:
            bits = bits << width(ty) | to_bits(ty, state.values[f"{header}.{name}"])
        return bits.to_bytes(self.n_bytes, "big")


@dataclass
class Reader:
    data: bytes
    at: int = 0

    def take(self, layout: Layout, state: State, header: str) -> None:
        if self.at + layout.n_bytes > len(self.data):
            raise ExitError
        layout.extract(state, header, self.data[self.at :])
        self.at += layout.n_bytes


@dataclass
class ParserState:
    """A state of the parser: what it extracts and computes, and the next state."""

    name: str
    extracts: list[tuple[str, Layout]]
    code: Code
    keys: list[Expr]
    cases: list[tuple[tuple[Match, ...], str]]
    otherwise: str
    loops: bool = False


@dataclass
class Program:
    maker: Maker
    layouts: dict[str, Layout]
    main: Layout
    result: Layout
    metadata: list[Place]
    registers: list[tuple[str, Bits]]
    functions: list[Block] = field(default_factory=list)
    actions: list[Block] = field(default_factory=list)
    controls: list[Block] = field(default_factory=list)
    table_lines: list[str] = field(default_factory=list)
    states: list[ParserState] = field(default_factory=list)
    ingress: Code = field(default_factory=Code)
    egress: Code = field(default_factory=Code)
    interesting: list[tuple[str, Bits, int]] = field(default_factory=list)
    """Fields of the first header, with values at the ends of the ranges in `select` cases."""

    def layout(self, header: str) -> Layout:
        return self.layouts["element_t" if is_element(header) else "plain_t"]

    @property
    def has_union(self) -> bool:
        return MEMBERS[0] in self.maker.headers_used

    def run(self, state: State, data: bytes) -> bytes:
        state.values.clear()
        for header in HEADERS:
            state.valid[header] = False
            for place in self.maker.fields_of(header):
                state.values[place.name] = 0
        reader = Reader(data)
        self.parse(state, reader)
        for code in (self.ingress, self.egress):
            with suppress(ExitError, ReturnError):
                code.run(state)
        out = self.main.emit(state, "hdr.m") + self.result.emit(state, "hdr.r")
        for header in HEADERS:
            out += self.layout(header).emit(state, header)
        return out + data[reader.at :]

    def parse(self, state: State, reader: Reader) -> None:
        """Runs the parser. After an error v1model goes on to ingress."""
        n_elements = 0
        at = self.states[0]
        by_name = {one.name: one for one in self.states}
        try:
            while True:
                for header, layout in at.extracts:
                    if at.loops:
                        if n_elements == STACK:
                            raise ExitError
                        reader.take(layout, state, f"hdr.st[{n_elements}]")
                        n_elements += 1
                        more = state.values[f"hdr.st[{n_elements - 1}].more"]
                        state.values["hdr.st.last.more"] = more
                    else:
                        reader.take(layout, state, header)
                state.ahead = reader.data[reader.at :]
                at.code.run(state)
                values = [key.run(state) for key in at.keys]
                found = at.otherwise
                for sets, target in at.cases:
                    if all_hold(sets, [key.ty for key in at.keys], values):
                        found = target
                        break
                if found in {"accept", "reject"}:
                    return
                at = by_name[found]
        except ExitError:
            return

    def packet(self, rng: Random) -> bytes:
        """Makes a random packet, often with fields at or near the ends of `select` ranges."""
        state = State()
        for name, ty in self.main.fields:
            state.values[f"hdr.m.{name}"] = any_value(rng, ty)
        for name, ty, number in rng.sample(self.interesting, min(2, len(self.interesting))):
            state.values[name] = near(rng, ty, number)
        state.valid["hdr.m"] = True
        result, rest = bytes(self.result.n_bytes), rng.randbytes(PAYLOAD_BYTES)
        return self.main.emit(state, "hdr.m") + result + rest

    def test(self, rng: Random) -> str:
        """Writes the packet test. Registers keep their values from one packet to the next."""
        state = State(cells={name: [0] * REGISTER_CELLS for name, _ in self.registers})
        lines = []
        for _ in range(PACKETS):
            data = self.packet(rng)
            lines += [f"packet 0 {data.hex()}", f"expect 1 {self.run(state, data).hex()} $"]
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        layouts = (self.main, self.result, *self.layouts.values())
        headers = "".join(layout.text() for layout in layouts)
        inner = "".join(f"    {ty} {name};\n" for name, ty in self.maker.inner)
        metadata = "".join(
            f"    {place.ty} {place.text.removeprefix('meta.')};\n"
            for place in self.metadata
            if place.text.count(".") == 1
        )
        functions = "".join(declaration(f"{one.result}", one) for one in self.functions)
        controls = "".join(declaration("control", one, "apply") for one in self.controls)
        actions = "".join(indented(declaration("action", one)) for one in self.actions)
        registers = "".join(
            f"    register<{ty}>({REGISTER_CELLS}) {name};\n" for name, ty in self.registers
        )
        instances = "".join(f"    {one.name}() {one.name}_i;\n" for one in self.controls)
        tables = "".join(f"    {line}\n" for line in self.table_lines)
        states = "".join(state_text(state) for state in self.states)
        ingress, egress = ("\n".join(code.indented(2)) for code in (self.ingress, self.egress))
        common = "inout headers_t hdr, inout metadata_t meta"
        standard = "inout standard_metadata_t standard"
        emitted = ["m", "r", "a", "b", "st", *(["u"] if self.has_union else [])]
        emits = " ".join(f"packet.emit(hdr.{name});" for name in emitted)
        union = ("header_union union_t { plain_t p; element_t e; }\n", "union_t u;")
        union_type, union_field = union if self.has_union else ("", "")
        return f"""#include <core.p4>
#include <v1model.p4>
{headers}{union_type}struct headers_t {{
    main_t m; result_t r; plain_t a; plain_t b; element_t[{STACK}] st; {union_field}
}}
struct inner_t {{
{inner}}}
struct metadata_t {{
{metadata}    inner_t s;
    inner_t z;
}}
{functions}parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, {standard}) {{
{states}}}
control V({common}) {{ apply {{ }} }}
{controls}control I({common}, {standard}) {{
{registers}{instances}{actions}{tables}    apply {{
        standard.egress_spec = 1;
{ingress}
    }}
}}
control E({common}, {standard}) {{
    apply {{
{egress}
    }}
}}
control C({common}) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ {emits} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def declaration(what: str, block: Block, inner: str = "") -> str:
    listed = [f"{it.direction} {it.place.ty} {it.place.text}".strip() for it in block.parameters]
    lines = block.body.indented()
    if inner:
        lines = [f"    {inner} {{", *block.body.indented(2), "    }"]
    return "\n".join([f"{what} {block.name}({', '.join(listed)}) {{", *lines, "}"]) + "\n"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def set_text(match: Match, ty: Scalar) -> str:
    match match:
        case Any():
            return "_"
        case Value(value):
            return literal(ty, value).text
    assert isinstance(ty, Bits)
    match match:
        case Mask(value, mask):
            return f"{typed(ty, value)} &&& {typed(ty, mask)}"
        case Span(low, high):
            return f"{typed(ty, low)} .. {typed(ty, high)}"


def state_text(state: ParserState) -> str:
    lines = [f"packet.extract({header});" for header, _ in state.extracts] + state.code.lines
    if not state.keys:
        lines.append(f"transition {state.otherwise};")
    else:
        lines.append(f"transition select({', '.join(key.text for key in state.keys)}) {{")
        for sets, target in state.cases:
            texts = [set_text(match, key.ty) for match, key in zip(sets, state.keys, strict=True)]
            text = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
            lines.append(f"    {text}: {target};")
        lines += [f"    {'_' if len(state.keys) == 1 else 'default'}: {state.otherwise};", "}"]
    return indented("\n".join([f"state {state.name} {{", *("    " + line for line in lines), "}"]))


def some_set(rng: Random, ty: Scalar) -> Match:
    if not isinstance(ty, Bits):
        return Any() if rng.random() < 0.2 else Value(rng.random() < 0.5)
    value = some_value(rng, ty)
    kind = rng.random()
    if kind < 0.1:
        return Any()
    if kind < 0.4:
        return Value(value)
    if kind < 0.65:
        mask = ty.wrap(rng.getrandbits(ty.width))
        return Mask(ty.wrap(value & mask), mask)
    other = rng.choice([some_value(rng, ty), ty.saturate(value + rng.randint(0, 5))])
    return Span(min(value, other), max(value, other))


def n_prefixes(match: Match) -> int:
    return max(1, 2 * (match.high - match.low).bit_length()) if isinstance(match, Span) else 1


def some_states(rng: Random, program: Program, scope: Scope) -> list[ParserState]:
    """Makes a random parser's states. Each leads to later states; the last fills the stack."""
    maker = program.maker
    plain, element = program.layouts["plain_t"], program.layouts["element_t"]
    opening = Code()
    for place in program.metadata:
        value = literal(place.ty, any_value(rng, place.ty))
        opening.add(f"{place.text} = {value.text};", assigned(place, value))
    names = ["start", "s_a", "s_b", "s_st"]
    states = []
    for at, name in enumerate(names):
        extracts = {
            "start": [("hdr.m", program.main), ("hdr.r", program.result)],
            "s_a": [("hdr.a", plain)],
            "s_b": [("hdr.b", plain)],
            "s_st": [("hdr.st.next", element)],
        }[name]
        code = opening if name == "start" else Code()
        header = f"hdr.{name[2:]}"
        inside = scope if header not in HEADERS else scope.with_(maker.fields_of(header))
        for _ in range(rng.randint(0, 2)):
            maker.assign(code, inside)
        if rng.random() < 0.3:
            look_ahead(rng, maker, code, inside)
        if name == "s_st":
            more = Expr(Bits(1), "hdr.st.last.more", lambda s: s.values["hdr.st.last.more"])
            filling = ParserState(name, extracts, code, [more], [((Value(1),), name)], "accept")
            filling.loops = True
            states.append(filling)
            continue
        later = [*names[at + 1 :], "accept"]
        fields = [place for place in inside.places if place.name.startswith("hdr.m.")]
        keys = [
            rng.choice(fields).read()
            if rng.random() < 0.7
            else maker.expr(maker.scalar(), inside, 1)
            for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        cases = []
        for _ in range(rng.randint(1, 4)):
            sets = tuple(some_set(rng, key.ty) for key in keys)
            if prod(map(n_prefixes, sets)) > TRANSITIONS:
                sets = tuple(Any() if isinstance(one, Span) else one for one in sets)
            for match, key in zip(sets, keys, strict=True):
                if isinstance(key.ty, Bits) and key.text.startswith("hdr.m."):
                    ends = [match.low, match.high] if isinstance(match, Span) else []
                    ends += [match.value] if isinstance(match, Value | Mask) else []
                    program.interesting += [(key.text, key.ty, end) for end in ends]
            cases.append((sets, rng.choice(later)))
        states.append(ParserState(name, extracts, code, keys, cases, rng.choice(later)))
    return states


def look_ahead(rng: Random, maker: Maker, code: Code, scope: Scope) -> None:
    """Adds code that reads bits by `lookahead`, without extracting them (P4_16, section 13.8.3)."""
    places = [place for place in scope.places if isinstance(place.ty, Bits)]
    place = rng.choice(places)
    ty = place.ty
    assert isinstance(ty, Bits)

    def look(state: State) -> None:
        n_bytes = -(-ty.width // 8)
        if len(state.ahead) < n_bytes:
            raise ExitError
        bits = int.from_bytes(state.ahead[:n_bytes], "big") >> (8 * n_bytes - ty.width)
        place.put(state, ty.wrap(bits))

    code.add(f"{place.text} = packet.lookahead<{ty}>();", look)


def apply_table(rng: Random, program: Program, code: Code, scope: Scope) -> None:
    """Adds code that applies a table of constant entries and uses `hit` or the like.

    See section 14.2.2 of the P4_16 specification.
    """
    maker = program.maker
    name = maker.name("t")
    keys = [maker.expr(maker.scalar(), scope, 2) for _ in range(rng.randint(1, 3))]
    ranges = ["range"] if maker.has_ranges else []
    of_numbers, of_truths = ["exact", "ternary", *ranges], ["exact", "ternary"]
    kinds = [rng.choice(of_numbers if isinstance(key.ty, Bits) else of_truths) for key in keys]
    actions = []
    for _ in range(2):
        # The arguments for parameters without a direction are in the entries.
        given = [
            Parameter("", Place(ty, text, text, ty))
            for ty, text in ((maker.scalar(), maker.name("p")) for _ in range(rng.randint(0, 2)))
        ]
        inside = Scope(
            scope.places,
            scope.functions,
            registers=program.registers,
            constant=[p.place for p in given],
        )
        action = Block(maker.name("act"), given, maker.code(inside, rng.randint(1, 2), 1))
        actions.append(action)
        program.actions.append(action)

    def bound(action: Block) -> tuple[str, list[Expr | Place]]:
        types = [one.place.ty for one in action.parameters]
        values: list[Expr | Place] = [literal(ty, any_value(rng, ty)) for ty in types]
        return f"{action.name}({', '.join(value.text for value in values)})", values

    entries = []
    lines = []
    seen = set()
    for _ in range(rng.randint(2, 5)):
        sets = []
        for key, kind in zip(keys, kinds, strict=True):
            match = some_set(rng, key.ty)
            while (
                (kind == "exact" and not isinstance(match, Value))
                or (kind == "ternary" and isinstance(match, Span))
                or (kind == "range" and isinstance(match, Mask))
            ):
                match = some_set(rng, key.ty)
            sets.append(match)
        if tuple(sets) in seen:
            continue
        seen.add(tuple(sets))
        action = rng.choice(actions)
        text, values = bound(action)
        entries.append((sets, action, values))
        texts = [set_text(match, key.ty) for match, key in zip(sets, keys, strict=True)]
        lines.append(f"        ({', '.join(texts)}): {text};")
    default = rng.choice(actions)
    default_text, default_values = bound(default)
    program.table_lines += [
        f"table {name} {{",
        "    key = {",
        *(
            f'        {k.text}: {kind} @name("k{at}");'
            for at, (k, kind) in enumerate(zip(keys, kinds, strict=True))
        ),
        "    }",
        f"    actions = {{ {actions[0].name}; {actions[1].name}; }}",
        f"    default_action = {default_text};",
        "    const entries = {",
        *lines,
        "    }",
        "}",
    ]

    def applied(state: State) -> tuple[Block, bool]:
        values = [key.run(state) for key in keys]
        for sets, action, arguments in entries:
            if all_hold(sets, [key.ty for key in keys], values):
                action.call(state, arguments)
                return action, True
        default.call(state, default_values)
        return default, False

    way = rng.choice(["plain", "hit", "miss", "run"])
    yes, no = maker.code(scope, rng.randint(1, 2), 1), maker.code(scope, 1, 1)
    match way:
        case "plain":
            code.add(f"{name}.apply();", applied)
        case "run":
            lines = [f"switch ({name}.apply().action_run) {{", f"    {actions[0].name}: {{"]
            lines += [*yes.indented(2), "    }", "    default: {", *no.indented(2), "    }", "}"]
            code.add_block(lines, lambda s: (yes if applied(s)[0] is actions[0] else no).run(s))
        case _:
            lines = [f"if ({name}.apply().{way}) {{", *yes.indented()]
            lines += ["} else {", *no.indented(), "}"]
            code.add_block(lines, lambda s: (yes if applied(s)[1] == (way == "hit") else no).run(s))


def filled(fields: list[tuple[str, Scalar]]) -> list[tuple[str, Scalar]]:
    """Returns the fields, with a field of padding if they do not fill whole bytes."""
    n_bits = -sum(width(ty) for _, ty in fields) % 8
    return [*fields, ("pad", Bits(n_bits))] if n_bits else fields


def some_program(rng: Random) -> Program:
    maker = Maker(rng)
    maker.plain = filled([(f"x{at}", maker.scalar()) for at in range(rng.randint(1, 3))])
    element: list[tuple[str, Scalar]] = [
        (f"y{at}", maker.scalar()) for at in range(rng.randint(1, 2))
    ]
    maker.element = filled([("more", Bits(1)), *element])
    metadata = []
    for at in range(rng.randint(3, 6)):
        ty = maker.types[at] if at < 3 else maker.scalar()
        metadata.append(Place(ty, f"meta.m{at}", f"meta.m{at}", ty))
    maker.inner = [(f"g{at}", maker.scalar()) for at in range(rng.randint(1, 3))]
    metadata += [place for struct in STRUCTS for place in maker.members(struct)]
    more: list[tuple[str, Scalar]] = [
        (f"f{at}", maker.scalar()) for at in range(2, rng.randint(4, 8))
    ]
    main = Layout("main_t", filled([("f0", Bits(8)), ("f1", Bits(8, True)), *more]))
    result = Layout("result_t", filled([(f"r{at}", place.ty) for at, place in enumerate(metadata)]))
    layouts = {
        "plain_t": Layout("plain_t", maker.plain),
        "element_t": Layout("element_t", maker.element),
    }
    n_registers = rng.choice([0, 0, 1, 2])
    registers = [(f"reg{at}", rng.choice(maker.types)) for at in range(n_registers)]
    program = Program(maker, layouts, main, result, metadata, registers)
    fields = [Place(ty, f"hdr.m.{name}", f"hdr.m.{name}", ty) for name, ty in main.fields]
    scope = Scope([*fields, *metadata], [], structs=True)
    for _ in range(rng.randint(0, 3)):
        nothing = Scope([], list(program.functions))
        result_ty = maker.scalar()
        made = maker.block("fun", nothing, result_ty, rng.randint(0, 3), "return")
        program.functions.append(made)
    scope.functions = program.functions
    program.states = some_states(rng, program, Scope(scope.places, [], structs=True))
    for _ in range(rng.randint(0, 2)):
        alone = Scope([], program.functions)
        control = maker.block("Sub", alone, None, rng.randint(1, 4), "exit return")
        control.call_name = f"{control.name}_i.apply"
        program.controls.append(control)
    actions: list[Block] = []
    for _ in range(rng.randint(0, 3)):
        inside = Scope(scope.places, program.functions, list(actions), registers, structs=True)
        actions.append(maker.block("do", inside, None, rng.randint(1, 3), "exit return"))
    program.actions += actions
    inside = Scope(
        scope.places,
        program.functions,
        [*actions, *program.controls],
        registers,
        True,
        "exit return",
        structs=True,
    )
    for _ in range(rng.randint(4, 9)):
        if rng.random() < 0.25:
            asking = Scope(scope.places, program.functions, actions, registers)
            apply_table(rng, program, program.ingress, asking)
        else:
            inside = maker.statement(program.ingress, inside, 3)
    for at, place in enumerate(metadata):
        to = Place(place.ty, f"hdr.r.r{at}", f"hdr.r.r{at}", place.ty)
        program.egress.add(f"{to.text} = {place.text};", assigned(to, place.read()))
    return program
