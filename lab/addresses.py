"""The addresses in the star, a network of hosts and the SFU around one bridge (`lab.netns`).

This module does no I/O.
"""

SUBNET_PREFIX_LEN = 24
SFU_NUMBER = 100
"""The SFU is 10.0.1.100, hosts are 10.0.1.1 to 10.0.1.99."""
N_HOSTS_MAX = SFU_NUMBER - 1
PRESENTER = 1
"""The host that sends."""
SFU_UDP_PORT = 5004
"""The RTP port of RFC 3551, section 8."""
SFU_PORT = 1
"""The port number under which the switch knows its one interface."""


def ip_of(number: int) -> str:
    return f"10.0.1.{number}"


def mac_of(number: int) -> str:
    """The Ethernet address of host `number`: locally administered, the last byte is the number."""
    return f"02:00:00:00:01:{number:02x}"


SFU_IP = ip_of(SFU_NUMBER)
SFU_MAC = mac_of(SFU_NUMBER)
