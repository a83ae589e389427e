"""NeoBFT's data plane measured: latency and throughput of both variants of ordered multicast."""
