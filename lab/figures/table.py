"""A table, and its forms: CSV, Markdown, LaTeX. No I/O."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Self, TypeVar

from lab.csvs import text_of

Line = TypeVar("Line")
Column = tuple[str, str, Callable[[Line], str]]
"""A column: its group, its name, and a function that makes the column's cell from a line."""


@dataclass(frozen=True, slots=True)
class Table:
    key: str
    title: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str

    @property
    def header(self) -> list[str]:
        heads = [group for group, span in self.groups for _ in range(span)]
        return [
            f"{head}: {name}" if head else name
            for head, name in zip(heads, self.columns, strict=True)
        ]

    def without(self, group: str) -> Self:
        """The table without the columns of a group."""
        heads = [head for head, span in self.groups for _ in range(span)]

        def kept(cells: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(cell for head, cell in zip(heads, cells, strict=True) if head != group)

        groups = tuple(one for one in self.groups if one[0] != group)
        rows = tuple(kept(row) for row in self.rows)
        return replace(self, groups=groups, columns=kept(self.columns), rows=rows)

    def as_csv(self) -> str:
        return text_of([self.header, *self.rows])

    def as_markdown(self) -> str:
        """Writes the table as Markdown. The first column is left-aligned, the others right."""
        rule = [":--", *["--:"] * (len(self.columns) - 1)]
        lines = [self.header, rule, *self.rows]
        body = "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )
        return f"**{self.title}**\n\n{body}\n\n{self.note}\n"

    def as_latex(self) -> str:
        columns = "l" + "r" * (len(self.columns) - 1)
        groups = " & ".join(
            f"\\multicolumn{{{span}}}{{c}}{{{_tex(name)}}}" for name, span in self.groups
        )
        lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_tex(self.title)}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                groups + r" \\",
                " & ".join(_tex(name) for name in self.columns) + r" \\",
                r"\midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def tabulate(
    key: str,
    title: str,
    columns: Iterable[Column[Line]],
    lines: Iterable[Line],
    note: str,
) -> Table:
    """Makes a table from columns and lines. Columns of one group must be adjacent."""
    known = [*columns]
    return Table(
        key,
        title,
        tuple((group, len([*of])) for group, of in groupby(known, key=lambda one: one[0])),
        tuple(name for _, name, _ in known),
        tuple(tuple(cell(line) for _, _, cell in known) for line in lines),
        note,
    )


_TEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "“": "``",
    "”": "''",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)
