"""Skips tests for which the machine lacks something."""

import os

import pytest


def need(lacks: str) -> None:
    """Skips the test, with a message, if the machine lacks something; with CI=true, fails it."""
    if lacks and os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and this machine lacks {lacks}", pytrace=False)
    if lacks:
        pytest.skip(f"NOT TESTED, this machine lacks {lacks}")
