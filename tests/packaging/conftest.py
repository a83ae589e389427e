"""The Debian package, and a clean system in which it is installed."""

import os
import re
import shutil
from pathlib import Path

import pytest

from lab.process import REPOSITORY
from lab.switch import RELEASE
from tests.needs import need
from tests.packaging.debian_root import DebianRoot, run


@pytest.fixture(scope="session")
def tools() -> None:
    need("" if os.geteuid() == 0 else "root")
    for program in ("dh", "lintian", "mmdebstrap", "man", "systemd-analyze"):
        need("" if shutil.which(program) else program)


@pytest.fixture(scope="session")
def package(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    run([REPOSITORY / "packaging/deb", RELEASE, folder])
    (package,) = folder.glob("reprise_*.deb")
    return package


@pytest.fixture(scope="session")
def next_package(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same package with a later version."""
    folder = tmp_path_factory.mktemp("next-package")
    contents, later = folder / "contents", folder / "reprise_9999.0.deb"
    run(["dpkg-deb", "--raw-extract", package, contents])
    control = contents / "DEBIAN/control"
    control.write_text(re.sub("(?m)^Version: .*$", "Version: 9999.0", control.read_text()))
    run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", contents, later])
    return later


@pytest.fixture(scope="session")
def contents(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package's files."""
    folder = tmp_path_factory.mktemp("contents")
    run(["dpkg-deb", "--extract", package, folder])
    return folder


@pytest.fixture(scope="session")
def pristine(tools: None, tmp_path_factory: pytest.TempPathFactory) -> DebianRoot:
    """A clean Debian system, which contains nothing of this project."""
    root = DebianRoot(tmp_path_factory.mktemp("debian") / "root")
    root.make("adduser", "procps", "systemd")
    return root


@pytest.fixture
def root(pristine: DebianRoot, tmp_path: Path) -> DebianRoot:
    """A copy of the clean Debian system, which a test can change."""
    copy = tmp_path / "root"
    run(["cp", "--archive", "--reflink=auto", pristine.path, copy])
    return DebianRoot(copy)
