"""The Thrift service `simple_switch`, which exists only in `simple_switch`."""

__all__ = ["SimpleSwitch", "ttypes"]
