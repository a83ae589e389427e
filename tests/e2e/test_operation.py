"""A minute of random operation: nothing is wrong. The hour is `python -m lab.operation`."""

from pathlib import Path

from lab.operation.operation import Operation
from lab.operation.run import operate

SECONDS = 25
SEED = 20261123
ACTIONS_MIN = 10


def test_whatever_goes_wrong_everybody_gets_what_he_must_and_nobody_else(
    program: Path, logs: Path
) -> None:
    print(f"seed {SEED}")
    with Operation(logs, program, SEED) as operation:
        operate(operation, SECONDS, lambda _: None)
    oracle, tally = operation.oracle, operation.tally
    print(f"{tally.commands} commands, {tally.killed} killed; {dict(tally.actions)}")
    print(f"{oracle.n_required} copies had to come, {oracle.n_excused} lost in disturbances")
    assert [one.what for one in oracle.violations] == []
    assert tally.actions.total() >= ACTIONS_MIN, "too little was done to show anything"
    assert oracle.n_required > 1000, "too few copies had to come to show anything"
    assert oracle.n_copies >= oracle.n_required - oracle.n_excused
