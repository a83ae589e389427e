"""The SFUs that studies compare: a class each, by name in `ROWS`."""

from lab.rows.bmv2 import Bmv2Recirculation, Bmv2Replication
from lab.rows.gstreamer import GStreamerMultiUdpSink
from lab.rows.janus import JanusStreaming
from lab.rows.multicast import MulticastOneStream, MulticastTwoStreams
from lab.rows.open_vswitch import OvsGroup
from lab.rows.p4 import P4Recirculation, P4Replication
from lab.rows.pktswitch import PktswitchBypass, PktswitchSockets
from lab.rows.row import Row
from lab.rows.rtpengine import RtpEngine
from lab.rows.scapy import Userspace, UserspacePortPerHost
from lab.rows.xdp_relay import XdpRelay

ROWS: dict[str, type[Row]] = {
    row.name: row
    for row in (
        P4Recirculation,
        P4Replication,
        MulticastOneStream,
        MulticastTwoStreams,
        Userspace,
        UserspacePortPerHost,
        PktswitchSockets,
        PktswitchBypass,
        XdpRelay,
        OvsGroup,
        RtpEngine,
        GStreamerMultiUdpSink,
        JanusStreaming,
        Bmv2Replication,
        Bmv2Recirculation,
    )
}
