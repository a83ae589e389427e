"""Okabe and Ito's, which people with colour blindness tell apart."""

BLUE = "#0072b2"
GREEN = "#009e73"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY = "#56b4e9"
GREY = "#7f7f7f"
