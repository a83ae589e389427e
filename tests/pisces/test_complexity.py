"""Tests the counts of programs' sizes, and that each change for a new header works as described."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.controller import REPRISE
from lab.pisces.complexity import (
    CHANGES,
    PEER,
    PROGRAMS,
    PUBLISHED_P4_LINES,
    changes,
    code_lines,
    count_c,
    count_p4,
    counted,
    files_of,
)
from lab.process import REPOSITORY
from lab.results.benchmarks import Change, Counted

ACL = "p4/bench/l2l3_acl.p4"


def read(path: str) -> str:
    return (REPOSITORY / path).read_text()


def test_comments_and_blank_lines_are_no_code() -> None:
    text = "/* a\n b */\n\nint x; // x\n   // y\nint y; /* z */\n"
    assert code_lines(text) == ["int x; ", "int y; "]


def test_a_program_is_counted_with_what_it_includes() -> None:
    files = {
        "a/main.p4": '#include <core.p4>\n#include "../b/one.p4"\n#include "two.p4"\n'
        "control C() {\n    action go() { }\n    table t {\n    }\n}\n",
        "b/one.p4": '#include "../a/two.p4"\nparser P() {\n    state start {\n    }\n}\n',
        "a/two.p4": "// nothing\nbit<8> f(in bit<8> x) { return x; }\n",
    }
    assert set(files_of("a/main.p4", files.__getitem__)) == set(files)
    assert count_p4("a/main.p4", files.__getitem__) == Counted(
        name="a/main.p4", files=3, lines=14, functions=2, tables=1, states=1, blocks=2
    )


def test_functions_of_c_are_told_from_what_else_has_braces() -> None:
    text = (
        "struct s {\n    int x;\n};\nstatic int f(int x,\n             int y) {\n}\nint g(void);\n"
    )
    assert count_c("c", {"c": text}.__getitem__).functions == 1


def test_every_program_and_the_peer_are_counted() -> None:
    found = {one.name: one for one in counted(read)}
    assert set(PROGRAMS) < set(found)
    assert found[ACL].tables == 8
    # The paper's program and ours do the same.
    assert found[ACL].lines == pytest.approx(PUBLISHED_P4_LINES, rel=0.2)
    assert found[PEER].functions > 20
    assert found[PEER].files > 3


def test_a_change_is_counted_by_what_it_writes() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n one\n-two\n+2 // why\n+\n+// why\n+three\n"
    (change, *_) = changes(lambda path: diff)
    assert change == Change("connection label", files=1, lines=2)


@pytest.mark.parametrize("change", CHANGES.values())
def test_a_change_compiles_and_does_what_it_says(change: str, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "p4", tmp_path / "p4")
    diff = REPOSITORY / change
    test = diff.with_suffix(".stf")

    def says() -> subprocess.CompletedProcess[str]:
        argv = [str(REPRISE), "stf", str(tmp_path / ACL), str(test)]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    assert says().returncode == 1
    subprocess.run(["git", "apply", str(diff)], cwd=tmp_path, check=True)
    after = says()
    assert after.returncode == 0, after.stdout + after.stderr
