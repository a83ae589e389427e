"""Okabe and Ito's colours, which people with colour blindness can tell apart."""

BLUE = "#0072b2"
GREEN = "#009e73"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY = "#56b4e9"
GREY = "#7f7f7f"
BROWN, VIOLET, OLIVE, PINK = "#8c564b", "#6a3d9a", "#8a8a00", "#e377c2"
NAVY, SAND, RED = "#393b79", "#b8860b", "#8b0000"
"""Colours beyond Okabe and Ito's seven. The rows (SFUs) of a figure also differ by their
markers."""
