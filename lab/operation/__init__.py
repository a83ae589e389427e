"""Random operation with an oracle: who must get what while everything that can go wrong does.

`python -m lab.operation` ([docs/lab.md](../../docs/lab.md#random-operation)).
"""
