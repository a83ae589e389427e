"""Random expressions and statements with their meaning (P4_16 1.2.5, sections 6.8, 8, 11 and 12).

Each part is made with its text and with a function that does what the text means. Nothing is made
that the specification leaves undefined: programs read fields only where their header is valid, and
variables only after they were written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from tests.model.types import Bits, Bool, some_value, some_width, to_bits, typed, width

Scalar = Bits | Bool
PACKETS = 10
STACK = 3
REGISTER_CELLS = 4
INDEX = Bits(32)


class ExitError(Exception):
    """Raised by `exit` and by an error of the parser, each of which ends the block."""


class ReturnError(Exception):
    def __init__(self, value: int = 0) -> None:
        super().__init__()
        self.value = value


class BreakError(Exception):
    """Raised by `break`."""


class ContinueError(Exception):
    """Raised by `continue`."""


@dataclass
class State:
    """A program's state: variables by their text in P4, the validity of headers, registers."""

    values: dict[str, int] = field(default_factory=dict)
    valid: dict[str, bool] = field(default_factory=dict)
    cells: dict[str, list[int]] = field(default_factory=dict)
    ahead: bytes = b""
    """While the parser runs: the rest of the packet."""


@dataclass(frozen=True)
class Expr:
    ty: Scalar
    text: str
    run: Callable[[State], int]


@dataclass(frozen=True)
class Place:
    """What can be assigned to: a variable, a field, or some bits of a variable or field."""

    ty: Scalar
    text: str
    name: str
    whole: Scalar
    low: int = 0
    index: Callable[[State], int] | None = None
    """The index, if this is an element of a header stack. `name` has a `?` where the index
    belongs."""

    def named(self, state: State) -> str:
        return self.name.replace("?", str(self.index(state))) if self.index else self.name

    def get(self, state: State) -> int:
        value = state.values[self.named(state)]
        if self.whole == self.ty:
            return value
        return (to_bits(self.whole, value) >> self.low) & ((1 << width(self.ty)) - 1)

    def put(self, state: State, value: int) -> None:
        if self.whole != self.ty:
            assert isinstance(self.whole, Bits)
            mask = ((1 << width(self.ty)) - 1) << self.low
            rest = to_bits(self.whole, state.values[self.named(state)]) & ~mask
            value = self.whole.wrap(rest | to_bits(self.ty, value) << self.low)
        state.values[self.named(state)] = value

    def read(self) -> Expr:
        return Expr(self.ty, self.text, self.get)


Step = Callable[[State], object]


@dataclass
class Code:
    """Statements: their lines of P4, and a function (step) for the effect of each."""

    lines: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(self, line: str, step: Step) -> None:
        self.lines.append(line)
        self.steps.append(step)

    def add_block(self, lines: list[str], step: Step) -> None:
        self.lines += lines
        self.steps.append(step)

    def run(self, state: State) -> None:
        for step in self.steps:
            step(state)

    def indented(self, levels: int = 1) -> list[str]:
        return [levels * "    " + line for line in self.lines]


@dataclass(frozen=True)
class Parameter:
    """A parameter. Its name is unique in the program.

    So one variable can hold the parameter in all calls, because nothing in the program is
    recursive.
    """

    direction: str
    place: Place


@dataclass
class Block:
    name: str
    parameters: list[Parameter]
    body: Code
    result: Scalar | None = None
    call_name: str = ""

    def call(self, state: State, arguments: list[Expr | Place]) -> int:
        """Runs the block with these arguments.

        Copies the arguments in before the block runs, and out after the block, even if it ended by
        `exit`, each time from left to right (section 6.8).
        """
        given = []
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if isinstance(argument, Place):
                given.append(0 if parameter.direction == "out" else argument.get(state))
            else:
                given.append(argument.run(state))
        for parameter, value in zip(self.parameters, given, strict=True):
            parameter.place.put(state, value)
        result = 0
        try:
            self.body.run(state)
        except ReturnError as returned:
            result = returned.value
        finally:
            for parameter, argument in zip(self.parameters, arguments, strict=True):
                if isinstance(argument, Place):
                    argument.put(state, parameter.place.get(state))
        return result


@dataclass
class Scope:
    """What a statement may use."""

    places: list[Place]
    functions: list[Block]
    actions: list[Block] = field(default_factory=list)
    registers: list[tuple[str, Bits]] = field(default_factory=list)
    headers: bool = False
    """Whether headers may become valid and invalid."""
    leave: str = ""
    """Which statement may end the block: `exit`, `return` or none."""
    result: Scalar | None = None
    constant: list[Place] = field(default_factory=list)
    """Variables that may be read but not written."""
    is_loop: bool = False
    structs: bool = False
    """Whether the metadata's structs may be used."""

    def with_(self, places: list[Place], headers: bool | None = None) -> Scope:
        """The same scope with more places."""
        headers = self.headers if headers is None else headers
        return replace(self, places=[*self.places, *places], headers=headers)


def literal(ty: Scalar, value: int) -> Expr:
    text = ("true" if value else "false") if isinstance(ty, Bool) else typed(ty, value)
    return Expr(ty, text, lambda _: value)


def both(ty: Scalar, left: Expr, op: str, right: Expr, of: Callable[[int, int], int]) -> Expr:
    """Two expressions with an operator between them; `of` computes the value of the whole."""
    return Expr(ty, f"({left.text} {op} {right.text})", lambda s: of(left.run(s), right.run(s)))


class Maker:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.n_names = 0
        # Most programs lack some of these features, so that the kernel engine can run the whole
        # program.
        self.has_loops = rng.random() < 0.3
        self.has_ranges = rng.random() < 0.4
        self.headers_used = HEADERS if rng.random() < 0.3 else HEADERS[: -len(MEMBERS)]
        self.plain: list[tuple[str, Scalar]] = []
        self.element: list[tuple[str, Scalar]] = []
        self.inner: list[tuple[str, Scalar]] = []
        """The members of a struct type. The metadata has two structs of this type."""
        self.types = [Bits(8), Bits(8, True)]
        while len(self.types) < 6:
            self.types.append(Bits(some_width(rng, 80), rng.random() < 0.5))

    def name(self, prefix: str) -> str:
        self.n_names += 1
        return f"{prefix}{self.n_names}"

    def scalar(self) -> Scalar:
        return Bool() if self.rng.random() < 0.15 else self.rng.choice(self.types)

    # Expressions (section 8).

    def expr(self, ty: Scalar, scope: Scope, depth: int) -> Expr:
        if depth <= 0 or self.rng.random() < 0.15:
            return self.leaf(ty, scope)
        calls = [function for function in scope.functions if function.result == ty]
        if calls and self.rng.random() < 0.12:
            called = self.called(self.rng.choice(calls), scope, depth - 1)
            if called:
                return called
        if self.rng.random() < 0.1:
            condition = self.expr(Bool(), scope, depth - 1)
            yes, no = self.expr(ty, scope, depth - 1), self.expr(ty, scope, depth - 1)
            text = f"({condition.text} ? {yes.text} : {no.text})"
            return Expr(ty, text, lambda s: yes.run(s) if condition.run(s) else no.run(s))
        if isinstance(ty, Bool):
            return self.truth(scope, depth - 1)
        return self.number(ty, scope, depth - 1)

    def leaf(self, ty: Scalar, scope: Scope) -> Expr:
        fitting = [place for place in scope.places + scope.constant if place.ty == ty]
        if fitting and self.rng.random() < 0.75:
            return self.rng.choice(fitting).read()
        numbers = [place for place in scope.places + scope.constant if isinstance(place.ty, Bits)]
        if isinstance(ty, Bits) and numbers and self.rng.random() < 0.5:
            return self.cast(ty, self.rng.choice(numbers).read())
        if isinstance(ty, Bool):
            if scope.headers and self.rng.random() < 0.4:
                return self.validity()
            if scope.structs and self.rng.random() < 0.3:
                return self.same_structs()
            return literal(ty, self.rng.random() < 0.5)
        if self.rng.random() < 0.1:
            text, number = self.exact(2)
            return Expr(ty, f"({ty})({text})", lambda _: ty.wrap(number))
        return literal(ty, some_value(self.rng, ty))

    def validity(self) -> Expr:
        """An expression: whether a header is valid, or is equal to another header (section
        8.17)."""
        rng = self.rng
        one = rng.choice(self.headers_used)
        if rng.random() < 0.6:
            return Expr(Bool(), f"{one}.isValid()", lambda s: s.valid[one])
        other = rng.choice([h for h in self.headers_used if is_element(h) == is_element(one)])

        def same(state: State) -> bool:
            if not (state.valid[one] and state.valid[other]):
                return state.valid[one] == state.valid[other]
            pairs = zip(self.fields_of(one), self.fields_of(other), strict=True)
            return all(a.get(state) == b.get(state) for a, b in pairs)

        is_equal = rng.random() < 0.5
        text = f"({one} {'==' if is_equal else '!='} {other})"
        return Expr(Bool(), text, lambda s: same(s) == is_equal)

    def exact(self, depth: int) -> tuple[str, int]:
        """A constant of type `int`, which has no width (section 8.8): its text and its value."""
        rng = self.rng
        if depth == 0:
            number = rng.choice([rng.randint(0, 9), rng.getrandbits(rng.randint(1, 70))])
            return rng.choice([str(number), hex(number), bin(number)]), number
        (left, a), (right, b) = self.exact(depth - 1), self.exact(depth - 1)
        op = rng.choice(["+", "-", "*", "/", "%", "<<", ">>"])
        if op in {"/", "%"} and (a < 0 or b <= 0):
            op = "+"
        if op in {"<<", ">>"}:
            right, b = str(b % 11), b % 11
        return f"({left} {op} {right})", OPERATORS[op](a, b)

    def cast(self, ty: Bits, inner: Expr) -> Expr:
        """A cast of a number (section 8.10). A change of width and a change of sign need a cast
        each."""
        of, text, run = inner.ty, inner.text, inner.run
        assert isinstance(of, Bits)
        if of == ty:
            return inner
        if of.signed != ty.signed and of.width != ty.width:
            between = Bits(ty.width, of.signed)
            return Expr(ty, f"({ty})({between}){text}", lambda s: ty.wrap(between.wrap(run(s))))
        return Expr(ty, f"({ty}){text}", lambda s: ty.wrap(run(s)))

    def number(self, ty: Bits, scope: Scope, depth: int) -> Expr:
        rng = self.rng
        kinds = ["add", "add", "saturate", "bits", "bits", "unary", "shift", "shift"]
        kind = rng.choice([*kinds, "cast", "cast", "slice", "concat", "bool"])
        if kind == "slice" and not ty.signed:
            of = Bits(ty.width + rng.randint(0, 9), rng.random() < 0.5)
            low = rng.randint(0, of.width - ty.width)
            inner = self.expr(of, scope, depth)
            text = f"({inner.text})[{low + ty.width - 1}:{low}]"
            return Expr(ty, text, lambda s: (of.bits(inner.run(s)) >> low) & ty.high)
        if kind == "concat" and ty.width > 1:
            right_width = rng.randint(1, ty.width - 1)
            left = self.expr(Bits(ty.width - right_width, ty.signed), scope, depth)
            right_ty = Bits(right_width, rng.random() < 0.4)
            right = self.expr(right_ty, scope, depth)
            return both(
                ty, left, "++", right, lambda a, b: ty.wrap(a << right_width | right_ty.bits(b))
            )
        if kind == "bool" and ty == Bits(1):
            inner = self.expr(Bool(), scope, depth)
            return Expr(ty, f"({ty})({inner.text})", lambda s: int(inner.run(s)))
        if kind == "cast":
            return self.cast(ty, self.grouped(self.expr(rng.choice(self.types), scope, depth)))
        if kind == "unary":
            inner = self.expr(ty, scope, depth)
            op = rng.choice(["-", "~"])
            text = f"({op}({inner.text}))"
            return Expr(ty, text, lambda s: ty.wrap(-inner.run(s) if op == "-" else ~inner.run(s)))
        if kind == "shift":
            return self.shift(ty, scope, depth)
        left, right = self.expr(ty, scope, depth), self.expr(ty, scope, depth)
        if kind == "saturate":
            op = rng.choice(["|+|", "|-|"])
            sign = 1 if op == "|+|" else -1
            return both(ty, left, op, right, lambda a, b: ty.saturate(a + sign * b))
        op = rng.choice(["&", "|", "^"] if kind == "bits" else ["+", "-", "*"])
        return both(ty, left, op, right, lambda a, b: ty.wrap(OPERATORS[op](a, b)))

    def grouped(self, inner: Expr) -> Expr:
        """The expression in parentheses, so that a cast applies to all of it."""
        return Expr(inner.ty, f"({inner.text})", inner.run)

    def shift(self, ty: Bits, scope: Scope, depth: int) -> Expr:
        """A shift. A shift by the width or more leaves only zeros, or copies of the sign bit."""
        rng = self.rng
        left = self.expr(ty, scope, depth)
        op = rng.choice(["<<", ">>"])
        if rng.random() < 0.5:
            amount = rng.randint(0, ty.width + 3)
            by = Expr(INDEX, str(amount), lambda _: amount)
        else:
            by = self.expr(Bits(rng.choice([3, 5, 8])), scope, depth)
        return both(ty, left, op, by, lambda value, n: ty.wrap(OPERATORS[op](value, n)))

    def truth(self, scope: Scope, depth: int) -> Expr:
        rng = self.rng
        kind = rng.choice(["compare", "compare", "compare", "and", "or", "not", "same", "cast"])
        if kind in {"and", "or"}:
            left, right = self.expr(Bool(), scope, depth), self.expr(Bool(), scope, depth)
            # The right operand is evaluated only if the left operand does not decide the result.
            if kind == "and":
                text = f"({left.text} && {right.text})"
                return Expr(Bool(), text, lambda s: left.run(s) and right.run(s))
            text = f"({left.text} || {right.text})"
            return Expr(Bool(), text, lambda s: left.run(s) or right.run(s))
        if kind == "not":
            inner = self.expr(Bool(), scope, depth)
            return Expr(Bool(), f"(!{inner.text})", lambda s: not inner.run(s))
        if kind == "cast":
            inner = self.expr(Bits(1), scope, depth)
            return Expr(Bool(), f"((bool)({inner.text}))", lambda s: bool(inner.run(s)))
        ty: Scalar = Bool() if kind == "same" else rng.choice(self.types)
        left, right = self.expr(ty, scope, depth), self.expr(ty, scope, depth)
        op = rng.choice(["==", "!="] if kind == "same" else ["==", "!=", "<", "<=", ">", ">="])
        return both(Bool(), left, op, right, COMPARISONS[op])

    def called(self, function: Block, scope: Scope, depth: int) -> Expr | None:
        arguments: list[Expr | Place] = []
        for parameter in function.parameters:
            if parameter.direction in {"in", ""}:
                arguments.append(self.expr(parameter.place.ty, scope, depth))
                continue
            place = self.place(scope, parameter.place.ty)
            if place is None:
                return None
            arguments.append(place)
        listed = ", ".join(argument.text for argument in arguments)
        text = f"{function.call_name or function.name}({listed})"
        return Expr(function.result or Bool(), text, lambda s: function.call(s, arguments))

    def place(self, scope: Scope, ty: Scalar) -> Place | None:
        """Chooses a variable, field or slice of this type to write to, or returns None."""
        rng = self.rng
        fitting = [place for place in scope.places if place.ty == ty]
        if isinstance(ty, Bits) and not ty.signed and rng.random() < 0.2:
            wide = [
                p
                for p in scope.places
                if isinstance(p.ty, Bits) and p.ty.width > ty.width and p.ty == p.whole
            ]
            if wide:
                of = rng.choice(wide)
                low = rng.randint(0, width(of.ty) - ty.width)
                text = f"{of.text}[{low + ty.width - 1}:{low}]"
                return Place(ty, text, of.name, of.whole, low, of.index)
        return rng.choice(fitting) if fitting else None

    # Statements (sections 11 and 12).

    def code(self, scope: Scope, n: int, depth: int) -> Code:
        code = Code()
        for _ in range(n):
            scope = self.statement(code, scope, depth)
        return code

    def statement(self, code: Code, scope: Scope, depth: int) -> Scope:
        rng = self.rng
        kinds = ["assign"] * 8 + ["declare"] * 2 + ["if"] * 3 + ["switch"] + ["call"] * 3
        kinds += ["loop"] * (2 if self.has_loops else 0)
        kinds += ["register"] * (2 if scope.registers else 0)
        kinds += ["headers"] * (3 if scope.headers else 0)
        kinds += ["leave"] if scope.leave and depth < 2 else []
        kinds += ["struct"] if scope.structs else []
        kinds += ["leave_loop"] * (3 if scope.is_loop else 0)
        kind = rng.choice(kinds)
        if (depth <= 0 and kind in {"if", "switch"}) or (kind == "loop" and depth <= 1):
            kind = "assign"
        match kind:
            case "declare":
                ty = self.scalar()
                name = self.name("v")
                value = self.expr(ty, scope, 2)
                place = Place(ty, name, name, ty)
                code.add(f"{ty} {name} = {value.text};", lambda s: place.put(s, value.run(s)))
                return scope.with_([place])
            case "if":
                self.branch(code, scope, depth)
            case "switch":
                self.switch(code, scope, depth)
            case "loop":
                self.loop(code, scope, depth)
            case "leave_loop":
                self.leave_loop(code, scope)
            case "call":
                self.call(code, scope)
            case "register":
                self.register(code, scope)
            case "struct":
                self.struct(code, scope)
            case "headers":
                self.headers(code, scope, depth)
            case "leave":
                self.leave(code, scope)
            case _:
                self.assign(code, scope)
        return scope

    def assign(self, code: Code, scope: Scope) -> None:
        """Adds an assignment, perhaps to a slice, perhaps with an operator."""
        rng = self.rng
        ty = rng.choice(scope.places).ty
        if isinstance(ty, Bits) and rng.random() < 0.15:
            ty = Bits(rng.randint(1, ty.width))
        place = self.place(scope, ty)
        if place is None:
            return
        value = self.expr(ty, scope, 3)
        if isinstance(ty, Bits) and rng.random() < 0.15:
            op, of = rng.choice(["+", "-", "*", "&", "|", "^"]), ty
            code.add(
                f"{place.text} {op}= {value.text};",
                # The left side is read before the right side is evaluated.
                lambda s: place.put(s, of.wrap(OPERATORS[op](place.get(s), value.run(s)))),
            )
            return
        code.add(f"{place.text} = {value.text};", lambda s: place.put(s, value.run(s)))

    def branch(self, code: Code, scope: Scope, depth: int) -> None:
        condition = self.expr(Bool(), scope, 3)
        yes = self.code(scope, self.rng.randint(1, 3), depth - 1)
        no = self.code(scope, self.rng.randint(0, 2), depth - 1)
        lines = [f"if ({condition.text}) {{", *yes.indented(), "}"]
        if no.lines or self.rng.random() < 0.2:
            lines[-1:] = ["} else {", *no.indented(), "}"]
        code.add_block(lines, lambda s: (yes if condition.run(s) else no).run(s))

    def switch(self, code: Code, scope: Scope, depth: int) -> None:
        """Adds a `switch` on a number. A label without a block falls through to the next label."""
        rng = self.rng
        ty = rng.choice(self.types)
        value = self.expr(ty, scope, 2)
        if rng.random() < 0.7:
            few = Bits(min(3, ty.width), ty.signed)
            inner = self.cast(few, self.grouped(value))
            value = self.cast(ty, self.grouped(inner))
            labels = sorted({some_value(rng, few) for _ in range(5)})
        else:
            labels = sorted({some_value(rng, ty) for _ in range(4)})
        rng.shuffle(labels)
        lines, blocks, waiting = [f"switch ({value.text}) {{"], dict[int, Code](), list[int]()
        for at, label in enumerate(labels):
            waiting.append(label)
            if rng.random() < 0.25 and at + 1 < len(labels):
                lines.append(f"    {typed(ty, label)}:")
                continue
            block = self.code(scope, rng.randint(1, 2), depth - 1)
            blocks |= dict.fromkeys(waiting, block)
            waiting = []
            lines += [f"    {typed(ty, label)}: {{", *block.indented(2), "    }"]
        otherwise = Code()
        if rng.random() < 0.7:
            otherwise = self.code(scope, rng.randint(1, 2), depth - 1)
            lines += ["    default: {", *otherwise.indented(2), "    }"]
        lines.append("}")
        code.add_block(lines, lambda s: blocks.get(value.run(s), otherwise).run(s))

    def loop(self, code: Code, scope: Scope, depth: int) -> None:
        """Adds a `for` loop with a few rounds, over a range or with a counter (section 12.9)."""
        rng = self.rng
        ty, name = rng.choice([Bits(8), Bits(8, True)]), self.name("i")
        first = some_value(rng, Bits(ty.width - 1, ty.signed))
        numbers = range(first, first + rng.randint(0 if rng.random() < 0.2 else 1, 4))
        counter = Place(ty, name, name, ty)
        inside = replace(scope, constant=[*scope.constant, counter], is_loop=True)
        body = self.code(inside, rng.randint(1, 3), depth - 1)
        if numbers and rng.random() < 0.5:
            head = f"for ({ty} {name} in {typed(ty, numbers[0])} .. {typed(ty, numbers[-1])}) {{"
        else:
            start, end = typed(ty, numbers.start), typed(ty, numbers.stop)
            head = f"for ({ty} {name} = {start}; {name} < {end}; {name} = {name} + 1) {{"

        def run(state: State) -> None:
            for number in numbers:
                counter.put(state, number)
                try:
                    body.run(state)
                except ContinueError:
                    continue
                except BreakError:
                    break

        code.add_block([head, *body.indented(), "}"], run)

    def leave_loop(self, code: Code, scope: Scope) -> None:
        condition = self.expr(Bool(), scope, 2)
        what = self.rng.choice(["break", "continue"])

        def go(state: State) -> None:
            if condition.run(state):
                raise BreakError if what == "break" else ContinueError

        code.add(f"if ({condition.text}) {{ {what}; }}", go)

    def call(self, code: Code, scope: Scope) -> None:
        """Adds a call of an action, a control or a function."""
        options = scope.actions + scope.functions
        if scope.is_loop:
            # BMv2 cannot go back to an earlier table. So a loop that calls a control would need a
            # fixed number of rounds.
            options = [one for one in options if not one.call_name]
        if not options:
            return
        called = self.called(self.rng.choice(options), scope, 2)
        if called:
            code.add(f"{called.text};", called.run)

    def register(self, code: Code, scope: Scope) -> None:
        """Adds a read or a write of a register cell that exists."""
        name, ty = self.rng.choice(scope.registers)
        index = self.expr(INDEX, scope, 1)
        at = f"({index.text}) & {REGISTER_CELLS - 1}"

        def cell(state: State) -> int:
            return index.run(state) & (REGISTER_CELLS - 1)

        place = self.place(scope, ty)
        if self.rng.random() < 0.5 and place:
            code.add(
                f"{name}.read({place.text}, {at});", lambda s: place.put(s, s.cells[name][cell(s)])
            )
            return
        value = self.expr(ty, scope, 2)

        def write(state: State) -> None:
            number = cell(state)
            state.cells[name][number] = value.run(state)

        code.add(f"{name}.write({at}, {value.text});", write)

    def members(self, struct: str) -> list[Place]:
        return [Place(ty, f"{struct}.{name}", f"{struct}.{name}", ty) for name, ty in self.inner]

    def struct(self, code: Code, scope: Scope) -> None:
        """Adds an assignment to a struct, from a struct or from a list, which is evaluated
        first."""
        rng = self.rng
        to = rng.choice(STRUCTS)
        places = self.members(to)
        if rng.random() < 0.4:
            other = rng.choice(STRUCTS)
            values = [place.read() for place in self.members(other)]
            text = other
        else:
            values = [self.expr(place.ty, scope, 2) for place in places]
            if rng.random() < 0.5:
                names = [name for name, _ in self.inner]
                pairs = [f"{n} = {v.text}" for n, v in zip(names, values, strict=True)]
                text = f"{{ {', '.join(pairs)} }}"
            else:
                text = f"{{ {', '.join(value.text for value in values)} }}"

        def run(state: State) -> None:
            for place, value in zip(places, [value.run(state) for value in values], strict=True):
                place.put(state, value)

        code.add(f"{to} = {text};", run)

    def same_structs(self) -> Expr:
        pairs = list(zip(*(self.members(struct) for struct in STRUCTS), strict=True))
        return Expr(
            Bool(),
            f"({STRUCTS[0]} == {STRUCTS[1]})",
            lambda s: all(a.get(s) == b.get(s) for a, b in pairs),
        )

    def leave(self, code: Code, scope: Scope) -> None:
        condition = self.expr(Bool(), scope, 2)
        what = self.rng.choice(scope.leave.split())
        value = self.expr(scope.result, scope, 2) if scope.result and what == "return" else None
        text = f"return {value.text};" if value else f"{what};"

        def go(state: State) -> None:
            if condition.run(state):
                raise ExitError if what == "exit" else ReturnError(value.run(state) if value else 0)

        code.add(f"if ({condition.text}) {{ {text} }}", go)

    def headers(self, code: Code, scope: Scope, depth: int) -> None:
        """Adds code that makes a header valid or invalid, uses its fields, or shifts a stack."""
        rng = self.rng
        header = rng.choice(self.headers_used)
        kind = rng.choice(["set", "unset", "use", "use", "copy", "move", "element"])
        match kind:
            case "set":
                pairs = [(f, self.expr(f.ty, scope, 2)) for f in self.fields_of(header)]

                def make(state: State) -> None:
                    self.make_valid(state, header)
                    for place, value in pairs:
                        place.put(state, value.run(state))

                written = [f"{place.text} = {value.text};" for place, value in pairs]
                code.add_block([f"{header}.setValid();", *written], make)
            case "unset":
                text = f"{header}.setInvalid();"
                if header in MEMBERS:
                    # Whether this affects another valid member of the union is disputed.
                    text = f"if ({header}.isValid()) {{ {text} }}"
                code.add(text, lambda s: s.valid.update({header: False}))
            case "copy":
                same = [h for h in HEADERS if is_element(h) == is_element(header)]
                other = rng.choice([h for h in same if h not in MEMBERS])
                text = f"{header} = {other};"
                if header in MEMBERS:
                    text = f"if ({other}.isValid()) {{ {text} }}"
                code.add(text, lambda s: self.copy(s, header, other))
            case "element":
                self.element_at(code, scope, depth)
            case "move":
                count = rng.randint(1, STACK + 1)
                push = rng.random() < 0.5
                code.add(
                    f"hdr.st.{'push' if push else 'pop'}_front({count});",
                    lambda s: self.move(s, count if push else -count),
                )
            case _:
                inside = scope.with_(self.fields_of(header), headers=False)
                inner = self.code(inside, rng.randint(1, 3), depth - 1)
                lines = [f"if ({header}.isValid()) {{", *inner.indented(), "}"]
                code.add_block(lines, lambda s: inner.run(s) if s.valid[header] else None)

    def element_at(self, code: Code, scope: Scope, depth: int) -> None:
        """Adds code that uses the stack's element at a variable index (section 8.18)."""
        rng = self.rng
        name = self.name("at")
        index = Place(Bits(2), name, name, Bits(2))
        condition = self.expr(Bool(), scope, 2)
        yes, no = rng.randrange(STACK), rng.randrange(STACK)
        code.add(
            f"bit<2> {name} = ({condition.text}) ? 2w{yes} : 2w{no};",
            lambda s: index.put(s, yes if condition.run(s) else no),
        )
        at = f"hdr.st[{name}]"
        fields = [
            Place(ty, f"{at}.{f}", f"hdr.st[?].{f}", ty, 0, index.get) for f, ty in self.element
        ]
        inner = self.code(scope.with_(fields, headers=False), rng.randint(1, 3), depth - 1)
        code.add_block(
            [f"if ({at}.isValid()) {{", *inner.indented(), "}"],
            lambda s: inner.run(s) if s.valid[f"hdr.st[{index.get(s)}]"] else None,
        )

    def fields_of(self, header: str) -> list[Place]:
        fields = self.element if is_element(header) else self.plain
        return [Place(ty, f"{header}.{name}", f"{header}.{name}", ty) for name, ty in fields]

    def copy(self, state: State, to: str, of: str) -> None:
        """Assigns the header `of` to `to`.

        An invalid `of` makes `to` invalid, unless `to` is a member of the union.
        """
        if to not in MEMBERS:
            state.valid[to] = state.valid[of]
        if state.valid[of]:
            self.make_valid(state, to)
            for target, source in zip(self.fields_of(to), self.fields_of(of), strict=True):
                target.put(state, source.get(state))

    def make_valid(self, state: State, header: str) -> None:
        """Makes a header valid and the other members of its union invalid (section 8.20)."""
        if header in MEMBERS:
            state.valid.update(dict.fromkeys(MEMBERS, False))
        state.valid[header] = True

    def move(self, state: State, by: int) -> None:
        """Does `push_front`, or for a negative `by` `pop_front`. Freed elements become invalid."""
        names = [f"hdr.st[{at}]" for at in range(STACK)]
        before = [
            (state.valid[name], [f.get(state) for f in self.fields_of(name)]) for name in names
        ]
        for at, name in enumerate(names):
            source = at - by
            valid, values = before[source] if 0 <= source < STACK else (False, before[at][1])
            state.valid[name] = valid
            for target, value in zip(self.fields_of(name), values, strict=True):
                target.put(state, value)

    # Blocks.

    def block(self, prefix: str, scope: Scope, result: Scalar | None, n: int, leave: str) -> Block:
        """Makes a function, an action or a control that first writes its `out` parameters."""
        rng = self.rng
        parameters, opening = [], Code()
        for _ in range(rng.randint(0 if result is None else 1, 3)):
            ty, name = self.scalar(), self.name("p")
            direction = rng.choice(["in", "inout", "inout", "out"])
            parameters.append(Parameter(direction, Place(ty, name, name, ty)))
        inside = replace(
            scope.with_([p.place for p in parameters if p.direction == "inout"]),
            leave=leave,
            result=result,
            constant=[*scope.constant, *[p.place for p in parameters if p.direction == "in"]],
        )
        for parameter in parameters:
            if parameter.direction == "out":
                place, value = parameter.place, self.expr(parameter.place.ty, inside, 1)
                opening.add(f"{place.text} = {value.text};", assigned(place, value))
                inside = inside.with_([place])
        if not inside.places:
            name = self.name("v")
            place = Place(Bits(8), name, name, Bits(8))
            opening.add(f"bit<8> {name} = 8w7;", assigned(place, literal(Bits(8), 7)))
            inside = inside.with_([place])
        body = self.code(inside, n, 2)
        code = Code(opening.lines + body.lines, opening.steps + body.steps)
        if result:
            value = self.expr(result, inside, 2)

            def give(state: State) -> None:
                raise ReturnError(value.run(state))

            code.add(f"return {value.text};", give)
        return Block(self.name(prefix), parameters, code, result)


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
STRUCTS = ["meta.s", "meta.z"]
MEMBERS = ["hdr.u.p", "hdr.u.e"]
HEADERS = ["hdr.a", "hdr.b", *(f"hdr.st[{at}]" for at in range(STACK)), *MEMBERS]


def is_element(header: str) -> bool:
    """Whether a header has the type of the stack's elements."""
    return header.startswith("hdr.st") or header == "hdr.u.e"


def assigned(place: Place, value: Expr) -> Step:
    return lambda state: place.put(state, value.run(state))
