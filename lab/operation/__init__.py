"""Random operation with an oracle, which knows at every moment who must get which packets.

`python -m lab.operation` ([docs/lab.md](../../docs/lab.md#random-operation)).
"""
