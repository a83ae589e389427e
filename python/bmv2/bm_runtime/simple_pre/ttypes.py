"""The types for the calls of `simple_pre`."""

from reprise_thrift import declare

TYPES = declare("""
enum McOperationErrorCode TABLE_FULL=1 INVALID_MGID=2 INVALID_MGRP_HANDLE=3 INVALID_L1_HANDLE=4 ERROR=5
exception InvalidMcOperation code:McOperationErrorCode
""")
globals().update(TYPES)
__all__ = list(TYPES)
