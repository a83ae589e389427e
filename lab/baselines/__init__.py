"""User-space SFUs, measured beside the P4 ones."""

READY = "ready:"
"""How the line begins that says that packets are awaited."""
