"""Makes the tables of docs/performance.md from the kept studies. No I/O."""

import re
from collections.abc import Sequence

from lab.pages.readme import KeptStudy, checks_table
from lab.pages.sections import sections_of

BLOCK = re.compile(
    r"<!-- from the study (?P<study>[a-z]+): (?P<keys>[a-z0-9, -]+) -->\n.*?<!-- end -->", re.S
)

CHECKS = re.compile(r"(<!-- checks of all studies -->\n).*?(<!-- end -->)", re.S)


class KeyMissingError(ValueError):
    """A study does not have a table that docs/performance.md asks for."""


def page_of(text: str, kept: Sequence[KeptStudy]) -> str:
    """The page's text, with the tables of the kept studies in their marked places."""
    studies = {study.name: study for study in kept}
    made = BLOCK.sub(lambda block: _made(block, studies.get(block["study"])), text)
    return CHECKS.sub(lambda block: f"{block[1]}{checks_table(kept)}\n{block[2]}", made)


def _made(block: re.Match[str], study: KeptStudy | None) -> str:
    begin = block[0].partition("\n")[0]
    return f"{begin}\n{_tables(block['keys'].split(', '), block['study'], study)}\n<!-- end -->"


def _tables(keys: Sequence[str], name: str, study: KeptStudy | None) -> str:
    if study is None:
        return f"No run of `./reprise-lab run {name}` is kept yet."
    found = {table.key: table for one in sections_of(study.results) for table in one.tables}
    missing = [key for key in keys if key not in found]
    if missing:
        raise KeyMissingError(f"the study {name} has no table {', '.join(missing)}")
    where = f"[{study.where.rpartition('/')[2]}](../{study.where}/report.html)"
    said = f"One run of `{study.command}` at commit {study.commit}: {where}."
    # The columns about how a rate was found are shown only in the study's report.
    tables = [found[key].without("how") for key in keys]
    return "\n\n".join([said, *(table.as_markdown().strip() for table in tables)])
