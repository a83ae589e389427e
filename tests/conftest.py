"""Fixtures of all tests. A test that needs network namespaces says so if there are none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import netns
from lab.netns import Star
from lab.process import interrupt_on_termination
from tests.needs import need


def pytest_configure() -> None:
    interrupt_on_termination()


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips a test that needs network namespaces if there are none; with CI=true it fails."""
    try:
        netns.require_namespaces()
    except netns.NamespaceError as error:
        need(f"network namespaces: {error}")


@pytest.fixture(scope="session")
def system_root(namespaces: None) -> None:
    """Skips a test that needs BPF (AF_XDP) if this process may not use it; fails with CI=true."""
    need("" if netns.is_root_of_system() else "BPF, which needs root outside any user namespace")


@pytest.fixture
def star(namespaces: None) -> Iterator[Star]:
    """The thesis' network: a presenter, up to eleven viewers, the SFU."""
    with Star(12) as topology:
        yield topology


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder
