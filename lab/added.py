"""Loads a user's rows (classes of SFUs) from the file that an experiment's `rows_from` names."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path

from lab.rows import ROWS
from lab.rows.row import Row

_OF_PROJECT = frozenset(ROWS)
_NAME = re.compile(r"[a-z0-9_]+")
_WORDS = ("name", "label", "source")


class RowsError(ValueError):
    """The file cannot be used; the message says why."""


def add_rows(file: Path, original: Path | None = None) -> None:
    """Adds the rows that the file defines to `ROWS`.

    A row of this file replaces a row of the same name that another user's file has added.

    `file` may be the copy in the folder of a study (the results of an experiment). As long as
    `original` exists with the same bytes, `original` is loaded instead, so that it can import the
    modules in its own folder.
    """
    if original is not None and _is_alike(original, file):
        file = original
    found = [
        one
        for one in _classes(file)
        # An abstract class that sets `name` was meant as a row, not as a base class.
        if issubclass(one, Row) and (not inspect.isabstract(one) or "name" in vars(one))
    ]
    if not found:
        raise RowsError(f"{file}: expected a class that is a lab.rows.row.Row, found none")
    for row in found:
        _check(row, file)
        ROWS[row.name] = row


def _is_alike(original: Path, file: Path) -> bool:
    try:
        return original.read_bytes() == file.read_bytes()
    except OSError:
        return False


def _classes(file: Path) -> list[type]:
    module_name = f"rows_of_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise RowsError(f"{file}: expected a Python file, found none")
    module = importlib.util.module_from_spec(spec)
    # The file can import modules from its own folder, as with `python FILE`.
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's file may raise anything
        raise RowsError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(file.parent.resolve()))
    own = [one for one in vars(module).values() if inspect.isclass(one)]
    return [one for one in own if one.__module__ == module_name]


def _check(row: type[Row], file: Path) -> None:
    lacking = [word for word in _WORDS if not isinstance(getattr(row, word, None), str)]
    lacking += sorted(row.__abstractmethods__)
    if lacking:
        raise RowsError(f"{file}: {row.__name__}: expected {', '.join(lacking)}, but missing")
    if not _NAME.fullmatch(row.name):
        raise RowsError(
            f"{file}: {row.__name__}.name: expected letters a-z, digits and _, found {row.name!r}"
        )
    if row.name in _OF_PROJECT:
        raise RowsError(
            f"{file}: {row.__name__}.name: expected one of its own, found {row.name!r}, "
            "a row of the project"
        )
