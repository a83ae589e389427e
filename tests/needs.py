"""What a test needs of the machine."""

import os

import pytest


def need(lacks: str) -> None:
    """Skips the test, loudly, where the machine lacks something; with CI=true that is a failure."""
    if lacks and os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and this machine lacks {lacks}", pytrace=False)
    if lacks:
        pytest.skip(f"NOT TESTED, this machine lacks {lacks}")
