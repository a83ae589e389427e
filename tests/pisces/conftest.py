"""A fixture for the tests that need Open vSwitch."""

import pytest

from lab.rows.open_vswitch import OvsGroup
from tests.needs import need


@pytest.fixture(scope="session")
def open_vswitch(namespaces: None) -> None:
    """Skips a test if there is no Open vSwitch; with CI=true the test fails."""
    need(OvsGroup.lacks())
