"""The examples in docs/p4rt.md, the page of the P4Runtime shell, work as they stand there."""

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.controller import REPRISE
from lab.process import REPOSITORY
from lab.switch import RELEASE
from tests.e2e.conftest import Switch

PAGE = REPOSITORY / "docs/p4rt.md"
PATIENCE_S = 120.0
END = "P4Runtime 1.5.0"


def blocks() -> list[tuple[str, str]]:
    """The page's code blocks in order: each has commands for bash or for the P4Runtime shell."""
    return re.findall(r"```(console|p4rt)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@contextlib.contextmanager
def shell_of(switch: Switch) -> Iterator[Callable[[str], str]]:
    """Starts a shell; yields a function that runs a line in it and returns what is printed."""
    with subprocess.Popen(
        [REPRISE, "p4rt", "--keep-going"],
        env=os.environ | {"REPRISE_SWITCH": switch.grpc},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(line: str) -> str:
            # The output of a second command marks the end of the first one's output.
            stdin.write(f"{line}\ncapabilities\n")
            stdin.flush()
            printed = "".join(iter(stdout.readline, f"{END}\n"))
            # The page was made at a prompt, where messages have no line number.
            return re.sub(r"^reprise: line \d+: ", "reprise: ", printed, flags=re.MULTILINE)

        run("primary take")
        try:
            yield run
        finally:
            stdin.close()


def test_the_page_is_what_is_printed(switch: Switch, tmp_path: Path) -> None:
    page = blocks()
    assert len(page) > 8
    with shell_of(switch) as shell:
        follow(page, shell, switch, tmp_path)
    assert "table add routes dst_addr=10.0.1.0/24" in (tmp_path / "state.p4rt").read_text()


def steady(printed: str) -> str:
    """The output without payloads, which contain the sender's port."""
    return re.sub(r"\b[0-9a-f]{40,}\b", "PAYLOAD", printed)


def follow(
    page: list[tuple[str, str]], shell: Callable[[str], str], switch: Switch, folder: Path
) -> None:
    environment = os.environ | {
        "REPRISE_SWITCH": switch.grpc,
        "PATH": f"{RELEASE}:{os.environ['PATH']}",
    }
    for kind, text in page:
        if kind == "console":
            commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
            # The switch and the shell already run.
            commands = [it for it in commands if not it.endswith("&") and it != "reprise p4rt"]
            for command in commands:
                done = subprocess.run(
                    ["bash", "-c", command.replace("/5004", f"/{switch.udp_port}")],
                    env=environment,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    check=True,
                )
                assert done.stderr == ""
            continue
        for step in re.split(r"^p4rt> ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            assert steady(shell(command)) == steady(expected), command
