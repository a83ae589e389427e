"""Figures and tables, made of rows alone. Pure."""
