"""The types for the calls of BMv2's Thrift service `simple_switch`."""

from reprise_thrift import declare

TYPES = declare("""
struct MirroringSessionConfig port:i32 mgid:i32
enum MirroringOperationErrorCode SESSION_NOT_FOUND=1
exception InvalidMirroringOperation code:MirroringOperationErrorCode
""")
globals().update(TYPES)
__all__ = list(TYPES)
