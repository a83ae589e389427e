"""Writes random programs with packet tests: `python3 -m tests.model --out FOLDER`."""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

from tests.model import tables, whole

TABLES_EACH = 8
"""The number of tables in a program: few enough for the kernel engine."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.model", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--programs", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for at in range(-(-given.tables // TABLES_EACH)):
        rng = Random(f"tables {given.seed} {at}")
        program = tables.some_program(rng, min(TABLES_EACH, given.tables - at * TABLES_EACH))
        path = given.out / f"tables_{given.seed}_{at:04}"
        path.with_suffix(".p4").write_text(program.text(rng))
        path.with_suffix(".stf").write_text(program.test(rng))
    for at in range(given.programs):
        rng = Random(f"programs {given.seed} {at}")
        made = whole.some_program(rng)
        path = given.out / f"programs_{given.seed}_{at:04}"
        path.with_suffix(".p4").write_text(made.text())
        path.with_suffix(".stf").write_text(made.test(rng))


if __name__ == "__main__":
    main()
