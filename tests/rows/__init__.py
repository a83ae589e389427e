"""Tests of the rows, on sites with real packets."""
