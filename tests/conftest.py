"""What all tests share: namespaces are required, loudly."""

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
    """Whoever uses this needs network namespaces: with CI=true their lack is a failure."""
    try:
        netns.require_namespaces()
    except netns.NamespaceError as error:
        need(f"network namespaces: {error}")


@pytest.fixture(scope="session")
def system_root(namespaces: None) -> None:
    """Whoever uses this needs the kernel's BPF (AF_XDP): with CI=true its lack is a failure."""
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
