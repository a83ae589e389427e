"""The multicast service `simple_pre_lag`."""

__all__ = ["SimplePreLAG", "ttypes"]
