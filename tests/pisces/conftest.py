"""What the tests of the comparison share: Open vSwitch is required, loudly."""

import pytest

from lab.rows.open_vswitch import OvsGroup
from tests.needs import need


@pytest.fixture(scope="session")
def open_vswitch(namespaces: None) -> None:
    """Whoever uses this needs Open vSwitch: with CI=true its lack is a failure."""
    need(OvsGroup.lacks())
