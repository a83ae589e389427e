"""The Thrift service `standard`, for tables, counters, meters, registers and programs."""

__all__ = ["Standard", "ttypes"]
