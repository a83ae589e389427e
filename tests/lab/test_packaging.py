"""The build requirements of the package `aom` are pinned, with hashes."""

import re
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "python/aom"


def test_what_builds_the_package_is_pinned_and_its_hashes_are_known() -> None:
    build = tomllib.loads((FOLDER / "pyproject.toml").read_text())["build-system"]
    pins = (FOLDER / "build-requirements.txt").read_text().replace("\\\n", " ").splitlines()
    pinned = [line.split() for line in pins if line and not line.startswith("#")]
    assert sorted(build["requires"]) == sorted(words[0] for words in pinned)
    for requirement, *hashes in pinned:
        assert re.fullmatch(r"[a-z-]+==[0-9.]+", requirement)
        assert hashes
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", word) for word in hashes)
