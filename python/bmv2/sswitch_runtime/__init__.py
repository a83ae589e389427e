"""What only `simple_switch` has: the service `simple_switch`."""

__all__ = ["SimpleSwitch", "ttypes"]
