"""Okabe and Ito's colours, which people with colour blindness can tell apart."""

BLUE = "#0072b2"
GREEN = "#009e73"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY = "#56b4e9"
GREY = "#7f7f7f"
BROWN, VIOLET, OLIVE, PINK = "#996056", "#8e5fc0", "#8a8a00", "#e377c2"
INDIGO, SAND, CRIMSON = "#6a6fd0", "#b8860b", "#c2395a"
"""Colours beyond Okabe and Ito's seven. All but the light PINK have a contrast of 3 to 1 or more
both with a report's light pages and with its dark ones (WCAG 2.2, 1.4.11). The rows (SFUs) of a
figure also differ by their markers."""
