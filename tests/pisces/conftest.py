"""What the tests of the comparison share: Open vSwitch is required, loudly."""

import os

import pytest

from lab.rows.open_vswitch import OvsGroup


@pytest.fixture(scope="session")
def open_vswitch(namespaces: None) -> None:
    """Whoever uses this needs Open vSwitch: with CI=true its lack is a failure."""
    if what := OvsGroup.lacks():
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true and no Open vSwitch: {what}", pytrace=False)
        pytest.skip(f"NOT TESTED, no Open vSwitch: {what}")
