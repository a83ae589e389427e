"""Runs the commands and the client in docs/join.md as they stand there, and compares the output."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import REPOSITORY
from lab.switch import RELEASE, SWITCH, require_build

PAGE = REPOSITORY / "docs/join.md"
LIMIT_S = 120.0
"""The most time that a program may take. It matters only if a program hangs."""
DIFFERS = [
    (r'"(created_ms|joined_ms)":\d+', r'"\1":TIME'),
    (r'"key":"[0-9a-f]+(\.\.\.)?"', '"key":KEY'),
    (r'"port":\d+', '"port":PORT'),
]
"""Patterns of values that differ in each run, each with its replacement."""


def blocks(language: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def alike(text: str) -> list[str]:
    for pattern, replacement in DIFFERS:
        text = re.sub(pattern, replacement, text)
    return [line for line in text.splitlines() if line]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the page's commands, with a service on ports of its own."""
    require_build(SWITCH, RELEASE / "reprise")
    addresses = ["--listen", "127.0.0.1:0", "--media", "127.0.0.1:0"]
    command: list[str | Path] = [RELEASE / "reprise", "serve", "--dev", "--json", *addresses]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            wait_until_ready(said["url"])
            yield {
                "URL": said["url"],
                "ADMIN": said["administrator"],
                "ANN": said["tokens"]["ann"],
                "BOB": said["tokens"]["bob"],
            }
        finally:
            process.terminate()
    assert process.returncode == 0


def wait_until_ready(url: str) -> None:
    """Waits until the switch is connected.

    Before that, the service would give the missing switch as the reason why a track does not come.
    """
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=LIMIT_S):
                return
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)


def bash(script: str, environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-e"],
        input=script,
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout


def test_each_command_prints_what_the_page_says(service: dict[str, str], tmp_path: Path) -> None:
    missing = [program for program in ("curl", "jq") if shutil.which(program) is None]
    assert not missing, f"without {' and '.join(missing)}: run scripts/install-packages pages"
    (v1,) = [line for block in blocks() for line in block.splitlines() if line.startswith("v1()")]
    commands: list[str] = []
    expected: list[str] = []
    for line in [line for block in blocks() if "$ v1" in block for line in block.splitlines()]:
        if line.startswith("$ "):
            # The service's answers have no line end, so an `echo` after each command adds one.
            commands += [line[2:], "echo"]
        else:
            expected.append(line)
    assert len(commands) > 20
    printed = bash("\n".join([v1, *commands]), service, tmp_path)
    assert alike(printed) == alike("\n".join(expected))


def test_the_client_receives_what_it_sends(service: dict[str, str], tmp_path: Path) -> None:
    (client,) = blocks("python")
    (tmp_path / "client.py").write_text(client)
    service["PYTHONPATH"] = str(REPOSITORY / "python/conference")
    printed = bash(f"{sys.executable} client.py", service, tmp_path).splitlines()
    (shown,) = [block for block in blocks() if "python3 client.py" in block]
    before, last = shown.splitlines()[1:-2], shown.splitlines()[-1]
    assert printed[: len(before)] == before
    assert printed[-1] == last
    assert len(printed) == len(before) + 8
