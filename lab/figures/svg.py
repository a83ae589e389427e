"""Shrinks an SVG to be kept in a page: the picture is the same, in a quarter of the bytes. No I/O.

A drawing library writes SVG for editors: it writes out the style of every mark, names every group,
and has six digits after the point and the same layers around each tick. A page needs none of this.
"""

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
GROUP = f"{{{SVG}}}g"
METADATA = f"{{{SVG}}}metadata"
STYLE = f"{{{SVG}}}style"

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def for_page(text: str, prefix: str, label: str) -> str:
    """Returns the SVG as an element of HTML that fills the width of its container.

    Ids and classes get a prefix, because they hold for the whole page.
    """
    root = ElementTree.fromstring(text)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    for metadata in root.findall(METADATA):
        root.remove(metadata)
    rules = [
        (style.text or "").replace("*", f".{prefix} *") for style in root.iter(STYLE) if style.text
    ]
    for parent in root.iter():
        for style in parent.findall(STYLE):
            parent.remove(style)
    used = set(re.findall(r"#([^)\"\s]+)", text))
    classes: dict[str, str] = {}
    for element in root.iter():
        _shorten(element, used, prefix)
        if look := element.attrib.pop("style", None):
            name = classes.setdefault(look, f"{prefix}-{len(classes)}")
            element.set("class", name)
    _unwrap(root)
    root.set("class", prefix)
    root.set("role", "img")
    root.set("aria-label", label)
    sheet = ElementTree.Element(STYLE)
    sheet.text = "".join(
        [*rules, *(f".{name}{{{look.replace(': ', ':')}}}" for look, name in classes.items())]
    )
    root.insert(0, sheet)
    return ElementTree.tostring(root, encoding="unicode")


def _shorten(element: ElementTree.Element, used: set[str], prefix: str) -> None:
    """Rounds coordinates to a hundredth of a point, removes unused ids and white space."""
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.attrib.pop(name)
            if value in used:
                element.set(name, f"{prefix}-{value}")
        elif name == "transform" and re.match(r"rotate\(-?0 ", value):
            element.attrib.pop(name)
        elif name != "style":
            short = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", value)
            short = re.sub(r"(#|url\(#)(?=[^)]+)", rf"\g<1>{prefix}-", short)
            element.set(name, " ".join(short.split()))
    if element.text and not element.text.strip():
        element.text = None
    if element.tail and not element.tail.strip():
        element.tail = None


def _unwrap(element: ElementTree.Element) -> None:
    """Replaces each group without attributes by its content."""
    children: list[ElementTree.Element] = []
    for child in list(element):
        _unwrap(child)
        children += list(child) if child.tag == GROUP and not child.attrib else [child]
        element.remove(child)
    element.extend(children)
