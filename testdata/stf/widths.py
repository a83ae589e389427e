"""Writes bit_W.{p4,stf} and int_W.{p4,stf}: every operator at the widths where words end.

The expected results are Python's integers under the specification's rules (sections 8.7, 8.8,
8.10.2), calculated without the compiler and the switch. The files are committed; run it to write
them anew.
"""

from __future__ import annotations

import random
from pathlib import Path

WIDTHS = (1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 128, 200)
FOLDER = Path(__file__).parent


def operands(width: int) -> list[tuple[int, int, int]]:
    """Pairs of bit patterns and a shift: the edges, then some from a fixed seed."""
    ones, top = (1 << width) - 1, 1 << (width - 1)
    rng = random.Random(width)
    pairs = [
        (0, 0, 0),
        (1, 1, 1),
        (ones, 1, width - 1),
        (ones, ones, width),
        (top, top, min(width + 1, 255)),
        (top - 1, 1 & ones, 1),
        (top, 1 & ones, 1),
        (0, ones, 255),
        (top, top - 1, 2),
    ]
    return pairs + [
        (rng.getrandbits(width), rng.getrandbits(width), rng.randrange(width)) for _ in range(4)
    ]


def results(x: int, y: int, n: int, width: int, signed: bool) -> tuple[list[int], list[bool]]:
    """The numbers, as patterns of `width` bits, and the comparisons."""
    ones, top = (1 << width) - 1, 1 << (width - 1)
    low, high = (-top, top - 1) if signed else (0, ones)

    def value(pattern: int) -> int:
        return pattern - (1 << width) if signed and pattern & top else pattern

    def clamp(number: int) -> int:
        return max(low, min(high, number))

    a, b = value(x), value(y)
    numbers = [
        a + b,
        a - b,
        a * b,
        -a,
        x & y,
        x | y,
        x ^ y,
        ~x,
        a << n,
        a >> n,
        clamp(a + b),
        clamp(a - b),
    ]
    return [number & ones for number in numbers], [a == b, a != b, a < b, a <= b, a > b, a >= b]


def test(width: int, signed: bool) -> str:
    """The packet test of one type: frames with operands, and with the results behind them."""
    padded = (width + 7) // 8 * 8
    digits = padded // 4

    def show(pattern: int) -> str:
        if signed and pattern >> (width - 1):
            pattern |= ((1 << padded) - 1) ^ ((1 << width) - 1)
        return f"{pattern:0{digits}x}"

    lines = ["# Calculated by widths.py. Operands a, b, n; then the results in program order."]
    for x, y, n in operands(width):
        given = f"{x:0{digits}x} {y:0{digits}x} {n:02x}"
        numbers, comparisons = results(x, y, n, width, signed)
        flags = sum(1 << (7 - i) for i, is_so in enumerate(comparisons) if is_so)
        shown = " ".join(show(number) for number in numbers)
        lines += [f"packet 1 {given}", f"expect 0 {given} {shown} {flags:02x} $"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes every file."""
    for width in WIDTHS:
        for signed, kind, section in ((False, "bit", "8.7"), (True, "int", "8.8")):
            name = f"{kind}_{width}"
            family = "signed" if signed else "unsigned"
            (FOLDER / f"{name}.p4").write_text(
                f"// Every operator of {kind}<{width}> (section {section}; shifts: 8.10.2).\n"
                f"#define WIDTH {width}\n"
                f"#define PADDED {(width + 7) // 8 * 8}\n"
                f'#include "include/{family}_operators.p4"\n'
            )
            (FOLDER / f"{name}.stf").write_text(test(width, signed))


if __name__ == "__main__":
    main()
