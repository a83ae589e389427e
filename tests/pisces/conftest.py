"""What the tests of the comparison share: Open vSwitch is required, loudly."""

import os

import pytest

from lab.pisces import switches


@pytest.fixture(scope="session")
def open_vswitch(namespaces: None) -> None:
    """Whoever uses this needs Open vSwitch: with CI=true its lack is a failure."""
    if what := switches.lacks():
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true and no Open vSwitch: {what}", pytrace=False)
        pytest.skip(f"NOT TESTED, no Open vSwitch: {what}")
