"""Makes the HTML parts of a report. Its only I/O is to read the style sheet."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from lab.figures.charts import Chart
from lab.figures.table import Table

STYLE = Path(__file__).with_name("page.css")
N_FAILURES_SHOWN = 10
N_COLUMNS_WIDE, N_COLUMNS_WIDEST = 12, 18
"""So that a table fits a screen of 1280 pixels, it gets narrow columns if it has more columns than
the first number, and still narrower ones if it has more than the second number."""
NAME_LETTERS = 24
"""A cell with more letters is treated as a phrase."""


def head(title: str) -> str:
    """The beginning of a page, up to the body's start tag."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text()}</style></head><body>"
    )


def navigation(places: Iterable[str]) -> str:
    return "<nav>" + "".join(f'<a href="#{place}">{place}</a>' for place in places) + "</nav>"


def verdict(name: str, holds: bool, failures: Sequence[str]) -> str:
    """Makes an entry of the list of checks, with the check's first failures below it."""
    word = '<span class="holds">holds</span>' if holds else '<span class="fails">fails</span>'
    more = len(failures) - N_FAILURES_SHOWN
    lines = [*failures[:N_FAILURES_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    shown = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<li>{word}: {escape(name)}{f'<ul>{shown}</ul>' if shown else ''}</li>"


def figure(key: str, title: str, svg: str, note: str) -> str:
    """A figure with its title above and its note below."""
    return (
        f'<figure id="{key}"><h3>{escape(title)}</h3>{svg}'
        f"<figcaption>{prose(note)}</figcaption></figure>"
    )


def chart(drawn: Chart) -> str:
    # matplotlib takes half a second to load, and most commands of the lab draw nothing.
    from lab.figures.plot import svg_for_page  # noqa: PLC0415

    return figure(drawn.key, drawn.title, svg_for_page(drawn), drawn.note)


def table_of(table: Table, *, is_open: bool = True) -> str:
    starts = {sum(span for _, span in table.groups[:idx]) for idx in range(1, len(table.groups))}

    columns = [[row[idx] for row in table.rows] for idx in range(len(table.columns))]
    classes = [
        _classes(first=idx in starts, words=_is_words(column), long=_is_long(column))
        for idx, column in enumerate(columns)
    ]

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{classes}>{escape(value)}</{tag}>"
            for classes, value in zip(classes, values, strict=True)
        )

    groups = "".join(
        f'<th colspan="{span}"{" class=" + chr(34) + "group" + chr(34) if name else ""}>'
        f"{escape(name)}</th>"
        for name, span in table.groups
    )
    rows = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    n_columns = len(table.columns)
    wide = _classes(wide=n_columns > N_COLUMNS_WIDE, widest=n_columns > N_COLUMNS_WIDEST)
    return (
        f'<details id="{table.key}"{" open" if is_open else ""}>'
        f"<summary>{escape(table.title)}</summary>"
        f'<p class="note">{prose(table.note)}</p><div class="scroll"><table{wide}><thead>'
        f"<tr>{groups}</tr>"
        f'<tr class="names">{cells("th", table.columns)}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _is_words(cells: Iterable[str]) -> bool:
    """Whether a column has words rather than numbers: most of its cells begin with a letter."""
    known = [cell for cell in cells if cell.strip("- ")]
    return bool(known) and 2 * sum(cell[0].isalpha() for cell in known) > len(known)


def _is_long(cells: Iterable[str]) -> bool:
    """Whether a column has phrases, which need more width than names."""
    return any(len(cell) > NAME_LETTERS for cell in cells)


def _classes(**holds: bool) -> str:
    names = " ".join(name for name, is_so in holds.items() if is_so)
    return f' class="{names}"' if names else ""


def prose(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if idx % 2 else part for idx, part in enumerate(parts))


def machine(sessions: Sequence[Mapping[str, str]]) -> str:
    """The section with the command, commit, machine and versions of each session."""
    parts = ['<h2 id="machine">Machine</h2>']
    for idx, session in enumerate(sessions, 1):
        if len(sessions) > 1:
            parts.append(f"<h3>Session {idx}</h3>")
        entries = "".join(
            f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(value)}</dd>"
            for name, value in session.items()
        )
        parts.append(f"<dl>{entries}</dl>")
    return "\n".join(parts)
