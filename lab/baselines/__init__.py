"""User-space SFUs, measured beside the P4 ones."""

READY = "ready:"
"""The prefix of the output line by which a program reports that it awaits packets."""
