"""What an operator sees when the SFU's interface is removed and made again."""

import json

from lab.process import run
from lab.switch import RELEASE, SWITCH, require_build

SCRIPT = f"""
PATH={RELEASE}:$PATH
cable() {{
    ip link add veth0 type veth peer name veth1
    ip address add 10.0.1.4/24 dev veth0
    ip address add 10.0.1.5/24 dev veth0
    ip link set veth0 up
    ip link set veth1 up
}}
wait_for_link() {{
    for _ in $(seq 100); do
        if reprise --json show | tail -1 | grep -q "\\"link\\":\\"$1\\""; then return; fi
    done
    exit 1
}}
ip link set lo up
cable
coproc switch {{ exec reprise-switch -i 1@veth1 p4/sfu.p4 2>&1; }}
sfu=$switch_PID
while read -ru "${{switch[0]}}" line; do
    if [[ $line == ready:* ]]; then break; fi
done
reprise address set --port 1 --ip 10.0.1.100 --mac 02:00:00:00:01:64 >&2
reprise group add --group 4 --ip 10.0.1.4 >&2
reprise viewer add --group 4 --ip 10.0.1.5 --udp-port 5004 >&2
ip link del veth1
wait_for_link lost
reprise show
reprise --json watch --times 1
cable
wait_for_link up
# The host behind the new cable has another hardware address.
reprise viewer remove --group 4 --ip 10.0.1.5 --udp-port 5004 >&2
reprise viewer add --group 4 --ip 10.0.1.5 --udp-port 5004 >&2
reprise --json show
kill "$sfu"
wait "$sfu"
"""


def test_an_operator_sees_that_an_interface_is_gone_and_goes_on_when_it_is_there(
    namespaces: None,
) -> None:
    require_build(SWITCH, RELEASE / "reprise")
    printed = run(["unshare", "-Urn", "bash", "-e"], stdin=SCRIPT)
    *page, watched, shown = printed.splitlines()
    titles = next(line for line in page if line.startswith("port "))
    port = next(line for line in page if line.startswith("1  "))
    assert titles.split()[:3] == ["port", "name", "link"]
    assert port.split()[:3] == ["1", "veth1", "lost"]
    [lost] = json.loads(watched)["ports"]
    assert (lost["link"], lost["lost_events"]) == ("lost", 1)
    [found] = json.loads(shown)["ports"]
    assert (found["link"], found["lost_events"]) == ("up", 1)
    # The group and its viewer still exist.
    [group] = json.loads(shown)["groups"]
    assert [viewer["ip"] for viewer in group["viewers"]] == ["10.0.1.5"]
