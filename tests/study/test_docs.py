"""docs/lab.md names every field of an experiment and every column of results, and no others."""

import re
from dataclasses import fields

import pytest
from pydantic import BaseModel

from lab.experiment import Benchmark, Experiment, Part, Search, StreamOf
from lab.process import REPOSITORY
from lab.results.runs import RunRow, SummaryRow, ViewerRow

PAGE = (REPOSITORY / "docs" / "lab.md").read_text()
COMMON = {"row", "engine", "port", "part", "topology", "wait", "viewers", "run"}


def section(title: str) -> str:
    return PAGE.partition(f"\n### {title}\n")[2].partition("\n#")[0]


def words(text: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9_]+)`", text))


def first_cells(table: str) -> set[str]:
    """The names in the first column of the table with this heading, in the section "Columns"."""
    text = section("Columns").partition(f"| `{table}` |")[2].partition("\n\n")[0]
    return {name for line in text.splitlines()[2:] for name in words(line.split(" | ")[0])}


@pytest.mark.parametrize("model", [Experiment, Part, StreamOf, Benchmark])
def test_every_field_of_an_experiment_is_documented(model: type[BaseModel]) -> None:
    assert set(model.model_fields) <= words(section("An experiment's file")) | {"measure"}


def test_every_field_of_a_search_is_documented_with_its_default() -> None:
    defaults = {name: field.default for name, field in Search.model_fields.items()}
    said = ", ".join(f"{name}: {value}" for name, value in defaults.items())
    assert f"`{{{said}}}`" in section("An experiment's file")


@pytest.mark.parametrize(
    ("table", "kind"),
    [("runs.csv", RunRow), ("viewers.csv", ViewerRow), ("summary.csv", SummaryRow)],
)
def test_every_column_is_documented_and_no_other(table: str, kind: type) -> None:
    columns = {field.name for field in fields(kind)}
    assert first_cells(table) - COMMON == columns - COMMON - (
        set() if table == "runs.csv" else {"bitrate_mbps"}
    )
