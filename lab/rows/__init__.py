"""The SFUs that studies compare: `ROWS` has all classes of this folder that have a `name`."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

from lab.rows.row import Row


def _found() -> Iterator[type[Row]]:
    for module in pkgutil.iter_modules(__path__):
        for one in vars(import_module(f"{__name__}.{module.name}")).values():
            if inspect.isclass(one) and issubclass(one, Row) and "name" in vars(one):
                yield one


ROWS: dict[str, type[Row]] = {
    row.name: row for row in sorted(_found(), key=lambda row: (row.rank, row.name))
}
