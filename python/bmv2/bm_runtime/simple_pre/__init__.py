"""The multicast service `simple_pre`."""

__all__ = ["SimplePre", "ttypes"]
