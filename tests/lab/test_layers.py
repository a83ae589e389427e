"""Tests that a module of the lab imports only modules of its own layer and of higher layers.

`lab.__doc__` lists the layers.
"""

import ast
import re
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter

import pytest

import lab
from lab.process import REPOSITORY

MODULES = {
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((REPOSITORY / "lab").rglob("*.py"))
}
_, *_LAYERS = re.split(r"\n(?=\w+ {2})", lab.__doc__ or "")
LAYERS = [re.findall(r"`(\w+)`", layer) for layer in _LAYERS]


def imports_of(module: str) -> Iterator[str]:
    """Yields the lab's modules that a module imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: expected absolute imports"
            for one in node.names:
                name = f"{node.module}.{one.name}"
                yield from (it for it in (name, node.module or "") if it in MODULES and it != "lab")


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def layer_of(module: str) -> int:
    return next((at for at, names in enumerate(LAYERS) if part_of(module) in names), 0)


def test_every_layer_and_what_is_in_it_is_there() -> None:
    assert len(LAYERS) == 9
    named = [name for names in LAYERS for name in names]
    assert sorted(named) == sorted(set(named))
    assert set(named) <= {part_of(module) for module in MODULES}
    packages = {part_of(module) for module in MODULES if module.count(".") > 1}
    assert packages <= set(named), "a package is in a layer"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_no_layer_below_its_own(module: str) -> None:
    below = [one for one in imports_of(module) if layer_of(one) > layer_of(module)]
    assert below == []


@pytest.mark.parametrize("what", [part_of, str], ids=["packages", "modules"])
def test_there_is_no_circle(what: Callable[[str], str]) -> None:
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        found = {what(one) for one in imports_of(module)} - {what(module)}
        graph.setdefault(what(module), set()).update(found)
    # If there is a cycle, `static_order` raises `CycleError`, which names the cycle.
    assert set(TopologicalSorter(graph).static_order()) >= graph.keys()
