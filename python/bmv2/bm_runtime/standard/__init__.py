"""Tables, counters, meters, registers, programs: the service `standard`."""

__all__ = ["Standard", "ttypes"]
