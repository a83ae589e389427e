"""BMv2's command line as a module, with its commands and the other names that scripts import.

The module was written for Reprise. The program `simple_switch_CLI` in `../bin` or in PATH carries
out each command, so the words and the output of a command are the same as on the command line.
"""

import argparse
import cmd
import ipaddress
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bmpy_utils as utils
from bm_runtime.simple_pre import SimplePre
from bm_runtime.simple_pre_lag import SimplePreLAG
from bm_runtime.standard import Standard
from bm_runtime.standard.ttypes import *

PROMPT = "RuntimeCmd: "
PROGRAM = "simple_switch_CLI"


class PreType:
    """The kind of a switch's replication engine."""

    none, SimplePre, SimplePreLAG = range(3)

    @staticmethod
    def from_str(text: str) -> int:
        """Returns the kind for a value of the option `--pre`."""
        return {"None": 0, "SimplePre": 1, "SimplePreLAG": 2}[text]


class UIn_Error(Exception):
    """An error in the input."""

    def __init__(self, info: str = "") -> None:
        super().__init__(info)
        self.info = info


class UIn_BadParamError(UIn_Error):
    """A parameter is invalid."""


class UIn_BadIPv4Error(UIn_Error):
    """A text is not an IPv4 address."""


class UIn_BadIPv6Error(UIn_Error):
    """A text is not an IPv6 address."""


class UIn_BadMacError(UIn_Error):
    """A text is not an Ethernet address."""


def ipv4Addr_to_bytes(addr: str) -> list[int]:
    """Returns the bytes of an IPv4 address."""
    if "." not in addr:
        raise UIn_BadIPv4Error
    try:
        return list(ipaddress.IPv4Address(addr).packed)
    except ValueError:
        raise UIn_BadIPv4Error from None


def ipv6Addr_to_bytes(addr: str) -> list[int]:
    """Returns the bytes of an IPv6 address."""
    try:
        return list(ipaddress.IPv6Address(addr).packed)
    except ValueError:
        raise UIn_BadIPv6Error from None


def macAddr_to_bytes(addr: str) -> list[int]:
    """Returns the bytes of an Ethernet address."""
    try:
        found = [int(part, 16) for part in addr.split(":")]
    except ValueError:
        raise UIn_BadMacError from None
    if len(found) != 6 or max(found) > 255:
        raise UIn_BadMacError
    return found


def int_to_bytes(i: int, num: int) -> list[int]:
    """Returns a number as this many bytes."""
    if i >= 1 << 8 * num:
        raise UIn_BadParamError("Parameter is too large")
    return list(i.to_bytes(num, "big"))


def parse_param(input_str: str, bitwidth: int) -> list[int]:
    """Returns a number or an address as the bytes of a field with this width in bits."""
    if bitwidth == 32 and "." in input_str:
        return ipv4Addr_to_bytes(input_str)
    if bitwidth == 48 and ":" in input_str:
        return macAddr_to_bytes(input_str)
    if bitwidth == 128 and ":" in input_str:
        return ipv6Addr_to_bytes(input_str)
    try:
        number = int(input_str, 0)
    except ValueError:
        raise UIn_BadParamError(
            "Invalid input, could not cast to integer, try in hex with 0x prefix"
        ) from None
    if number >= 1 << bitwidth:
        raise UIn_BadParamError("Parameter is too large")
    return int_to_bytes(number, (bitwidth + 7) // 8)


def bytes_to_string(byte_array: list[int]) -> bytes:
    """Returns the bytes in the form that Thrift needs."""
    return bytes(byte_array)


def hexstr(v: bytes) -> str:
    """Returns every byte as two hexadecimal digits."""
    return v.hex()


def thrift_connect(thrift_ip: str, thrift_port: int, services: list) -> list:
    """Connects to a switch, like `bmpy_utils.thrift_connect`."""
    return utils.thrift_connect(thrift_ip, thrift_port, services)


def load_json_config(
    standard_client: object = None, json_path: str | None = None, _architecture: object = None
) -> dict:
    """Returns the program from a file or from the switch."""
    return json.loads(utils.get_json_config(standard_client, json_path) or "{}")


def get_parser() -> argparse.ArgumentParser:
    """Returns the parser for the options of the command line."""
    parser = argparse.ArgumentParser(description="BM runtime CLI")
    parser.add_argument("--thrift-port", type=int, default=9090)
    parser.add_argument("--thrift-ip", type=str, default="localhost")
    parser.add_argument("--json", type=str)
    parser.add_argument("--pre", type=PreType.from_str, default=PreType.SimplePre)
    return parser


def program() -> str:
    """Returns the path of the program for the command line."""
    beside = Path(__file__).parent.parent / "bin" / PROGRAM
    found = str(beside) if beside.exists() else shutil.which(PROGRAM)
    if found is None:
        raise FileNotFoundError(f"{PROGRAM}: neither in {beside.parent} nor in PATH (make compat)")
    return found


class RuntimeAPI(cmd.Cmd):
    """The commands of the command line.

    Examples are `api.do_table_add("t a 1 => 2")`, `api.onecmd("table_dump t")` and `api.cmdloop()`.
    """

    prompt = PROMPT
    intro = "Control utility for runtime P4 table manipulation"

    @staticmethod
    def get_thrift_services(pre_type: int) -> list:
        """Returns the services for the connection, each with its client class."""
        multicast = {
            PreType.none: (None, None),
            PreType.SimplePre: ("simple_pre", SimplePre.Client),
            PreType.SimplePreLAG: ("simple_pre_lag", SimplePreLAG.Client),
        }
        return [("standard", Standard.Client), multicast[pre_type]]

    def __init__(self, pre_type: int, standard_client: object, mc_client: object = None) -> None:
        super().__init__()
        self.pre_type = pre_type
        self.client = standard_client
        self.mc_client = mc_client

    def run(self, line: str) -> str:
        """Returns the output of the command line for a command."""
        host, port = self.client.channel.connection.socket.getpeername()[:2]
        command = [program(), "--thrift-ip", host, "--thrift-port", str(port)]
        command += ["--pre", ("None", "SimplePre", "SimplePreLAG")[self.pre_type]]
        # Only the command's own output is returned.
        done = subprocess.run(
            command, input=f"{line}\n", capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise UIn_Error(done.stderr.strip() or done.stdout.strip())
        _, _, output = done.stdout.partition(PROMPT)
        return output.removesuffix("\n").removesuffix(PROMPT).removesuffix("\n")

    def onecmd(self, line: str) -> bool | None:
        """Runs one command. The command's output is printed on standard output."""
        if line.strip() in ("", "EOF"):
            return line.strip() == "EOF"
        output = self.run(line)
        if output:
            print(output)
        return None

    def __getattr__(self, name: str) -> object:
        if not name.startswith("do_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        command = name.removeprefix("do_")
        return lambda line="": self.onecmd(f"{command} {line}")


def main() -> None:
    """Replaces this process by the command line."""
    os.execv(program(), ["runtime_CLI", *sys.argv[1:]])


if __name__ == "__main__":
    main()
