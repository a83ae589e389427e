"""Runs random commands and faults against a switch; an oracle judges the packets of each viewer.

`python -m lab.operation` ([docs/lab.md](../../docs/lab.md#random-operation)).
"""
