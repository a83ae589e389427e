"""`lab.figures.svg` shrinks SVGs for pages."""

from xml.etree import ElementTree

import pytest

from lab.figures.svg import for_page

DRAWN = """<?xml version="1.0"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="360pt" height="280pt" viewBox="0 0 360 280"
 xmlns="http://www.w3.org/2000/svg">
 <metadata>who drew it</metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="axes_1">
  <g id="lines" clip-path="url(#p1)">
   <path d="M 61.862242 222.696897
L -0.123456 3" style="fill: none"/>
   <use xlink:href="#m1" x="1.999999" style="fill: none"/>
  </g>
  <text transform="rotate(-0 1.5 2.5)">two  words</text>
  <text transform="rotate(-90 1.5 2.5)">up</text>
 </g>
 <clipPath id="p1"><rect id="nobody's"/></clipPath>
 <path id="m1" d="M 0 0"/>
</svg>
"""


@pytest.fixture(name="found")
def _found() -> ElementTree.Element:
    return ElementTree.fromstring(for_page(DRAWN, "fig", "a & b"))


def test_an_svg_in_a_page_has_its_own_ids_and_its_references_find_them(
    found: ElementTree.Element,
) -> None:
    ids = {element.get("id") for element in found.iter() if "id" in element.attrib}
    assert ids == {"fig-p1", "fig-m1"}
    group = next(element for element in found if element.get("clip-path"))
    assert group.get("clip-path") == "url(#fig-p1)"
    assert group[1].get("{http://www.w3.org/1999/xlink}href") == "#fig-m1"


def test_the_same_look_is_said_once_and_for_this_figure_alone(found: ElementTree.Element) -> None:
    assert found[0].text == ".fig *{stroke-linejoin: round}.fig-0{fill:none}"
    assert [element.get("class") for element in found.iter() if "class" in element.attrib] == [
        "fig",
        "fig-0",
        "fig-0",
    ]


def test_nothing_that_is_seen_changes_by_more_than_a_hundredth(found: ElementTree.Element) -> None:
    path, use = next(element for element in found if element.get("clip-path"))
    assert path.get("d") == "M 61.86 222.70 L -0.12 3"
    assert use.get("x") == "2.00"
    words = [element for element in found if element.tag.endswith("text")]
    assert [element.text for element in words] == ["two  words", "up"]
    assert [element.get("transform") for element in words] == [None, "rotate(-90 1.5 2.5)"]


def test_it_is_as_wide_as_its_place_and_named_for_those_who_do_not_see_it(
    found: ElementTree.Element,
) -> None:
    assert found.get("width") is None
    assert found.get("viewBox") == "0 0 360 280"
    assert found.get("role") == "img"
    assert found.get("aria-label") == "a & b"
    assert "who drew it" not in for_page(DRAWN, "fig", "")
