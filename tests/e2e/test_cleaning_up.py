"""Ctrl-C in the middle of the demonstration leaves no processes, namespaces or files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.demo import EXIT_INTERRUPTED
from lab.netns import NAME_PREFIX, NAMESPACES
from lab.process import REPOSITORY


def processes_of(session_marker: str) -> list[str]:
    """Command lines of all processes whose environment holds `session_marker`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if session_marker.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except (OSError, PermissionError):
            continue
    return found


@pytest.mark.parametrize(
    ("stage", "kind"),
    [("viewers:  8", signal.SIGINT), ("decode it", signal.SIGINT), ("viewers:  1", signal.SIGTERM)],
    ids=["SIGINT in a burst", "SIGINT in the video", "SIGTERM in a burst"],
)
def test_an_interrupted_demo_leaves_no_namespace_no_process_and_no_file(
    namespaces: None, tmp_path: Path, stage: str, kind: signal.Signals
) -> None:
    marker = f"REPRISE_TEST_MARKER={tmp_path}"
    name, value = marker.split("=")
    with subprocess.Popen(
        [sys.executable, "-m", "lab.demo", "--results", str(tmp_path / "results")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, name: value},
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        said = ""
        while stage not in said:
            line = demo.stdout.readline()
            assert line, f"the demo ended early:\n{said}"
            said += line
        during = {path.name for path in NAMESPACES.iterdir()}
        assert any(one.startswith(f"{NAME_PREFIX}-{demo.pid}-") for one in during)
        assert any("reprise-switch" in one for one in processes_of(marker))
        demo.send_signal(kind)
        said += demo.stdout.read()
        code = demo.wait(30)
    assert code == EXIT_INTERRUPTED, said
    assert "Traceback" not in said
    own = f"{NAME_PREFIX}-{demo.pid}-"
    assert [path.name for path in NAMESPACES.iterdir() if path.name.startswith(own)] == []
    assert processes_of(marker) == []
    assert list(tmp_path.rglob("*")) == []
