"""Tests that no measured number in README.md and docs/performance.md was typed by hand.

All these numbers come from kept studies.
"""

import re
from pathlib import Path

import pytest

from lab.pages.performance import BLOCK, CHECKS, KeyMissingError, page_of
from lab.pages.readme import BEGIN, END
from lab.study.keep import PERFORMANCE, README, current_pages, kept_studies

NUMBER = re.compile(r"(?<![\w./-])\d[\d,.]*(?:%| ?[KMG]iB)?(?![\w])")
NO_RESULTS = (
    r"# the thesis' experiment whole.*",
    r"\(Papageorgiou, 2026\)",
    r"ISCC 2015",
    r"RFC 2544",
    r"Debian 12",
    r"Python 3\.11",
    r"Apache-2\.0",
    r"VLAN 0",
    r"VLANs other than VLAN 0",
)
"""Names and years in the text that contain a number."""


def prose(text: str) -> str:
    """Returns a page's text without code, link targets and names with numbers.

    Text that tools wrote is left out, too.
    """
    text = CHECKS.sub("", BLOCK.sub("", text))
    text = re.sub(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", "", text, flags=re.S)
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for name in NO_RESULTS:
        text = re.sub(name, "", text)
    return text


def untraced(text: str) -> list[str]:
    """The lines with a number that no tool wrote."""
    return [line for line in prose(text).splitlines() if NUMBER.search(line)]


@pytest.mark.parametrize("page", [README, PERFORMANCE], ids=lambda page: page.name)
def test_a_number_is_written_by_the_tool_from_a_kept_study_or_is_code(page: Path) -> None:
    assert untraced(page.read_text()) == []


@pytest.mark.parametrize("page", [README, PERFORMANCE], ids=lambda page: page.name)
def test_what_the_tool_writes_is_of_studies_that_are_kept_and_names_their_commits(
    page: Path,
) -> None:
    assert current_pages()[page] == page.read_text(), "./reprise-lab keep makes it again"
    commits = {study.commit for study in kept_studies()}
    named = set(re.findall(r"at commit ([0-9a-f]{12})", page.read_text()))
    assert named
    assert named <= commits


def test_a_number_that_somebody_types_is_found() -> None:
    assert untraced("It reaches 2.76 million.\n") == ["It reaches 2.76 million."]
    assert untraced("a ratio of 0.96\nof IPv4 in `64` bytes, P4_16\n") == ["a ratio of 0.96"]
    typed = PERFORMANCE.read_text().replace("## Fan-out\n", "## Fan-out\n\nIt makes 1,040,000.\n")
    assert untraced(typed) == ["It makes 1,040,000."]


def test_a_table_that_a_study_does_not_have_is_an_error_and_a_study_that_is_not_kept_is_said() -> (
    None
):
    kept = kept_studies()
    with pytest.raises(KeyMissingError, match="the study kernel has no table nope"):
        page_of("<!-- from the study kernel: nope -->\n<!-- end -->", kept)
    text = "<!-- from the study neverkept: x -->\n<!-- end -->"
    assert "No run of `./reprise-lab run neverkept` is kept yet." in page_of(text, kept)
