"""A short random operation shows no violation. `python -m lab.operation` runs for an hour."""

from pathlib import Path

from lab.operation.operation import Operation
from lab.operation.run import operate

SECONDS = 25
ROUNDS_MAX = 4
"""How many rounds may be run.

On a busy machine a round may have too few packets and actions; then another round is run.
"""
SEED = 20261123
ACTIONS_MIN = 10
REQUIRED_MIN = 1000


def test_whatever_goes_wrong_everybody_gets_what_he_must_and_nobody_else(
    program: Path, logs: Path
) -> None:
    print(f"seed {SEED}")
    with Operation(logs, program, SEED) as operation:
        oracle, tally = operation.oracle, operation.tally
        for _ in range(ROUNDS_MAX):
            operate(operation, SECONDS, lambda _: None)
            if tally.actions.total() >= ACTIONS_MIN and oracle.n_required > REQUIRED_MIN:
                break
    print(f"{tally.commands} commands, {tally.killed} killed; {dict(tally.actions)}")
    print(f"{oracle.n_required} copies had to come, {oracle.n_excused} lost in disturbances")
    assert [one.what for one in oracle.violations] == []
    assert tally.actions.total() >= ACTIONS_MIN, "too little was done to show anything"
    assert oracle.n_required > REQUIRED_MIN, "too few copies had to come to show anything"
    assert oracle.n_copies >= oracle.n_required - oracle.n_excused
