"""Connects to a switch, like BMv2's module with the same name, but without Apache Thrift.

The module was written for Reprise. It uses Reprise's own implementation of the protocol
(`reprise_thrift`).
"""

import hashlib
import sys
from pathlib import Path
from typing import TextIO

from bm_runtime.standard import Standard
from reprise_thrift import Channel, Connection


def thrift_connect(
    thrift_ip: str, thrift_port: int, services: list, out: TextIO = sys.stdout
) -> list:
    """Returns a client for each (service, class), or None for a service that is None.

    The program ends if the connection is refused.
    """
    try:
        connection = Connection(thrift_ip, thrift_port)
    except OSError:
        out.write(f"Could not connect to thrift client on port {thrift_port}\n")
        out.write("Make sure the switch is running and that you have the right port\n")
        sys.exit(1)
    return [
        None if service is None else made(Channel(connection, service))
        for service, made in services
    ]


def thrift_connect_standard(thrift_ip: str, thrift_port: int, out: TextIO = sys.stdout) -> object:
    """Returns a client of the service `standard`, which exists in every target."""
    return thrift_connect(thrift_ip, thrift_port, [("standard", Standard.Client)], out)[0]


def check_JSON_md5(client: object, json_src: str, out: TextIO = sys.stdout) -> None:
    """Prints a warning if a file is not the switch's program."""
    ours = hashlib.md5(Path(json_src).read_bytes(), usedforsecurity=False).digest()
    try:
        theirs = client.bm_get_config_md5()
    except Exception:
        out.write("Error when requesting config md5 sum from switch\n")
        sys.exit(1)
    if ours == theirs:
        return
    out.write("**********\n")
    out.write("WARNING: the JSON files loaded into the switch and the one you just provided to ")
    out.write("this CLI don't have the same md5 sum. ")
    out.write("Are you sure they describe the same program?\n")
    for name, found in (("switch md5", theirs), ("CLI input md5", ours)):
        out.write(f"{name:<15}: {found.hex()}\n")
    out.write("**********\n")


def get_json_config(
    standard_client: object = None, json_path: str | None = None, out: TextIO = sys.stdout
) -> str:
    """Returns the program's JSON text, from a file or from the switch."""
    if json_path:
        if standard_client is not None:
            check_JSON_md5(standard_client, json_path, out)
        return Path(json_path).read_text(encoding="utf-8")
    out.write("Obtaining JSON from switch...\n")
    try:
        found = standard_client.bm_get_config()
    except Exception:
        out.write("Error when requesting JSON config from switch\n")
        sys.exit(1)
    out.write("Done\n")
    return found
