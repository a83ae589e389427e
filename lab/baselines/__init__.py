"""User-space SFUs, measured beside the P4 ones."""
