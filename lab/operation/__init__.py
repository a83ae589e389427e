"""Operates a switch at random, with an oracle that knows at any time who must get which packets.

`python -m lab.operation` ([docs/lab.md](../../docs/lab.md#random-operation)).
"""
