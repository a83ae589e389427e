"""Runs the commands in docs/conference.md that make a conference by hand, as they stand there."""

from lab.process import REPOSITORY, run
from lab.switch import RELEASE, SWITCH, require_build

PAGE = REPOSITORY / "docs/conference.md"
PROGRAMS = "$PWD/target/release"
"""Where `make build` puts the programs. The programs under test may be elsewhere."""


def conference_by_hand() -> str:
    _, block, _ = PAGE.read_text().split("```\n")
    assert PROGRAMS in block
    return block.replace(PROGRAMS, str(RELEASE))


def test_the_conference_by_hand_is_one_paste_and_its_viewer_receives(namespaces: None) -> None:
    require_build(SWITCH, RELEASE / "reprise")
    # The script ends with the switch's exit code, which must be 0.
    printed = run(["bash"], stdin=conference_by_hand())
    received = [line for line in printed.splitlines() if line.startswith("the viewer received")]
    numbers = [int(line.split()[4]) for line in received]
    assert len(numbers) == 5
    assert numbers == list(range(numbers[0], numbers[0] + 5))
    assert all(line.endswith("from 10.0.1.100") for line in received)
    assert "to 10.0.1.5:5004" in printed
