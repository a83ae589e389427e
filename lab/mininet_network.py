"""A network of Mininet's until standard input ends; `/usr/bin/python3 mininet_network.py NODES`.

`NODES` is JSON, a list of nodes with their link to the bridge. Prints the nodes' process ids by
name. Runs outside the lab's environment and so imports nothing of the lab.
"""

import json
import signal
import sys

from mininet.link import Link  # type: ignore[import-not-found, unused-ignore]
from mininet.net import Mininet  # type: ignore[import-not-found, unused-ignore]
from mininet.nodelib import LinuxBridge  # type: ignore[import-not-found, unused-ignore]

BRIDGE = "br0"


def main() -> None:
    """Makes the network, serves, removes it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    nodes = json.loads(sys.argv[1])
    network = Mininet(switch=LinuxBridge, link=Link, controller=None)
    try:
        bridge = network.addSwitch(BRIDGE)
        for node in nodes:
            host = network.addHost(node["name"], ip=node["ip"])
            network.addLink(
                host,
                bridge,
                intfName1=node["interface"],
                intfName2=node["port"],
                addr1=node["mac"],
            )
        network.start()
        pids = {node["name"]: network.get(node["name"]).pid for node in nodes}
        print(f"ready: {json.dumps(pids)}", flush=True)
        sys.stdin.read()
    finally:
        network.stop()


if __name__ == "__main__":
    main()
