"""Tests that the list in docs/p4runtime.md is what scripts/p4runtime-page makes.

The script makes it from a list of the specification's requirements (docs/p4runtime.rows) and from
comments above tests, which say what requirements a test shows (`spec: KEY`).
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "scripts/p4runtime-page"
PARTS = (SCRIPT, "docs/p4runtime.md", "docs/p4runtime.rows")
TESTS = (
    "crates/control/p4runtime-server",
    "crates/bin/switch/tests",
    "tests/finsy",
    "tests/clients",
)


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script of the folder `root`, which checks whether the page there is up to date."""
    command = [str(root / SCRIPT), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_page_is_current_and_no_row_is_without_a_test_or_a_reason() -> None:
    checked = check(ROOT)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with copies of the rows, the page and the tests, which a test can change."""
    for part in PARTS:
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    for part in TESTS:
        shutil.copytree(ROOT / part, tmp_path / part)
    assert check(tmp_path).returncode == 0
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (
            "docs/p4runtime.rows",
            "Capabilities RPC |",
            "Capabilities RPC | more | Of all\nCapabilities RPC |",
            "neither a test nor a reason: more",
        ),
        (
            "crates/control/p4runtime-server/tests/p4runtime/capabilities.rs",
            "spec: capabilities",
            "spec: capability",
            "shows capability, which has no row",
        ),
        ("docs/p4runtime.md", "Capabilities RPC", "RPC", "not current"),
    ],
)
def test_what_does_not_go_together_is_told(
    copy: Path, file: str, old: str, new: str, complaint: str
) -> None:
    path = copy / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    checked = check(copy)
    assert checked.returncode == 1
    assert complaint in checked.stderr
