"""Tests what scripts/rust-tests prints. A fake cargo reports shell scripts as test programs."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.process import REPOSITORY

PASSING = "echo 'test result: ok. 2 passed; 0 failed'"


def cargo(folder: Path, programs: dict[str, str], *, status: int = 0) -> list[str]:
    """The command of a fake cargo that reports a library, and these scripts as test programs."""
    messages: list[dict[str, object]] = [
        {"reason": "build-script-executed"},
        {"reason": "compiler-artifact", "executable": None, "profile": {"test": False}},
    ]
    for name, script in programs.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        messages.append(
            {
                "reason": "compiler-artifact",
                "executable": str(file),
                "profile": {"test": True},
                "manifest_path": str(folder / "Cargo.toml"),
                "target": {"kind": ["test"], "name": name},
            }
        )
    printed = "\n".join(map(json.dumps, messages))
    code = f"import sys; print({printed!r}); sys.exit({status})"
    return [sys.executable, "-c", code]


def rust_tests(command: list[str]) -> tuple[int, str]:
    argv = [sys.executable, str(REPOSITORY / "scripts/rust-tests"), *command]
    done = subprocess.run(argv, check=False, text=True, capture_output=True, timeout=120)
    return done.returncode, done.stdout


def test_programs_that_pass_are_a_line_each(tmp_path: Path) -> None:
    status, said = rust_tests(cargo(tmp_path, {"one": f"echo noise; {PASSING}", "two": PASSING}))
    assert status == 0
    assert said.count(" s: test result: ok. 2 passed") == 2
    assert "noise" not in said
    assert said.endswith("rust-tests: 2 programs, 0 failed\n")


def test_what_was_not_tested_is_told_though_it_passed(tmp_path: Path) -> None:
    # The message comes in the middle of a line that the test harness prints.
    once = "printf 'test a ... '; echo 'NOT TESTED: a: needs root' >&2; echo ok"
    twice = "echo 'NOT TESTED: no BPF' >&2; echo 'NOT TESTED: no BPF' >&2"
    status, said = rust_tests(cargo(tmp_path, {"one": f"{once}; {twice}; {PASSING}"}))
    assert status == 0
    assert "\n  NOT TESTED: a: needs root\n  NOT TESTED: no BPF (2 times)\n" in said


def test_a_failed_program_shows_all_that_it_printed_and_the_others_run(tmp_path: Path) -> None:
    failing = "echo 'test a ... FAILED'; echo why >&2; exit 101"
    status, said = rust_tests(cargo(tmp_path, {"one": failing, "two": PASSING}))
    assert status == 1
    assert "test a ... FAILED\nwhy\n" in said
    assert "\nerror: " in said
    assert "test one ended with status 101" in said
    assert "test result: ok. 2 passed" in said
    assert "rust-tests: 2 programs, 1 failed" in said


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_program_that_is_killed_is_named_with_its_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    status, said = rust_tests(cargo(tmp_path, {"one": f"{PASSING}; kill -{number.value} $$"}))
    assert status == 1
    assert f"test one was ended by {number.name}" in said


def test_a_process_that_a_test_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    leaving = f"sleep 300 & echo $! > {pid}; {PASSING}"
    status, said = rust_tests(cargo(tmp_path, {"one": leaving}))
    subprocess.run(["kill", pid.read_text().strip()], check=True)
    assert status == 0
    assert "1 programs, 0 failed" in said


def test_a_program_that_hangs_is_ended_and_shows_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUST_TESTS_LIMIT_S", "1")
    hanging = "echo 'test a ... ok'; exec sleep 300"
    status, said = rust_tests(cargo(tmp_path, {"one": hanging, "two": PASSING}))
    assert status == 1
    assert "test a ... ok\n" in said
    assert "\nerror: " in said
    assert "test one did not end within 1 s" in said
    assert "rust-tests: 2 programs, 1 failed" in said


def test_a_compilation_that_fails_is_a_failure_and_nothing_runs(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    status, _ = rust_tests(cargo(tmp_path, {"one": f"touch {ran}"}, status=101))
    assert status == 101
    assert not ran.exists()


def test_no_program_is_a_failure(tmp_path: Path) -> None:
    status, said = rust_tests(cargo(tmp_path, {}))
    assert status == 1
    assert "0 programs" in said
