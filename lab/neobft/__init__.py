"""Measures NeoBFT's data plane: latency and throughput of both variants of ordered multicast."""
