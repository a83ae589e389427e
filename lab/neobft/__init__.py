"""NeoBFT's data plane measured: latency and throughput of both variants of ordered multicast.

Pure: `results`, `published`, `figures`. `network` and `measure` run switches, the configuration
service, the signer and `reprise-aom-bench`.
"""
