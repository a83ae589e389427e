"""Compares the model with examples that were worked out by hand from the specification."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from random import Random

import pytest

from tests.model import tables, whole
from tests.model.programs import Block, Code, ExitError, Parameter, Place, State
from tests.model.tables import ACTIONS, Any, Entry, Field, Key, Mask, Span, Table, Value
from tests.model.types import Bits, from_bits, to_bits, typed

INT8 = Bits(8, signed=True)
BIT8 = Bits(8)


def test_numbers_wrap_and_saturate_at_the_ends_of_their_type() -> None:
    assert (INT8.low, INT8.high, Bits(1, signed=True).low) == (-128, 127, -1)
    assert (INT8.wrap(128), INT8.wrap(-129), BIT8.wrap(-1)) == (-128, 127, 255)
    assert (INT8.saturate(200), INT8.saturate(-200), BIT8.saturate(-3)) == (127, -128, 0)
    assert (to_bits(INT8, -112), from_bits(INT8, 0x90)) == (0x90, -112)
    assert (typed(INT8, -112), typed(BIT8, 5)) == ("(-8s112)", "8w5")


@pytest.mark.parametrize(
    ("match", "inside", "outside"),
    [
        (Span(-3, 3), [-3, 0, 3], [-4, 4, -128, 127]),
        (Span(-128, -1), [-128, -1], [0, 127]),
        (Mask(-112, -16), [-112, -97], [-96, -113, 112]),
        (Mask(0, 0), [-128, 127], []),
        (Value(-112), [-112], [112]),
        (Any(), [-128, 127], []),
    ],
)
def test_sets_of_a_signed_key(match: tables.Match, inside: list[int], outside: list[int]) -> None:
    assert all(tables.holds(match, INT8, value) for value in inside)
    assert not any(tables.holds(match, INT8, value) for value in outside)


def key(kind: str) -> Key:
    return Key("k", INT8, kind, Field("f", INT8), "field")


def found(table: Table, value: int) -> int:
    return table.look_up({"f": value})[0][0].number


def test_the_longest_prefix_wins_and_the_first_of_ranked_entries() -> None:
    one, two = (ACTIONS[0], (1,)), (ACTIONS[1], (2,))
    prefixes = Table("t", [key("lpm")], "const")
    # The entries match the values from -128 to -1, and the values from -16 to -1.
    prefixes.entries = [
        Entry((Mask(-128, -128),), one, 0, True),
        Entry((Mask(-16, -16),), two, 1, True),
    ]
    assert [found(prefixes, value) for value in (-17, -16, -1, 0)] == [1, 2, 2, 3]
    ranges = Table("t", [key("range")], "const")
    ranges.entries = [Entry((Span(-3, 3),), one, 0, True), Entry((Any(),), two, 1, True)]
    assert [found(ranges, value) for value in (-4, -3, 3, 4)] == [2, 1, 1, 2]
    ranges.entries[0] = Entry((Span(-3, 3),), one, 2, True)
    assert found(ranges, 0) == 2


def test_arguments_are_copied_out_from_left_to_right_and_also_after_exit() -> None:
    variable = Place(BIT8, "x", "x", BIT8)
    parameters = [Parameter("inout", Place(BIT8, name, name, BIT8)) for name in ("a", "b")]

    def body(state: State) -> None:
        state.values["a"] += 1
        state.values["b"] += 2
        raise ExitError

    block = Block("f", parameters, Code(steps=[body]))
    state = State({"x": 10})
    with pytest.raises(ExitError):
        block.call(state, [variable, variable])
    assert state.values["x"] == 12


def test_a_seed_makes_the_same_program_and_the_same_packets() -> None:
    def made() -> tuple[str, str]:
        rng = Random("a seed")
        program = whole.some_program(rng)
        return program.text(), program.test(rng)

    assert made() == made()


def test_the_model_knows_nothing_of_the_compiler() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                own = name.startswith("tests.model") or name == "pytest"
                assert own or name.split(".")[0] in sys.stdlib_module_names
