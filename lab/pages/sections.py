"""The sections on benchmarks in a study's report. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from lab.figures import (
    fanout,
    joins,
    kernel,
    load,
    mixers,
    neobft,
    pipeline,
    pisces,
    scaling,
    switching,
)
from lab.figures.charts import Chart
from lab.figures.fanout import Beside
from lab.figures.table import Table
from lab.pages import page
from lab.results.benchmarks import Results


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    title: str
    about: str
    charts: Sequence[Chart]
    tables: Sequence[Table]


def sections_of(found: Results) -> list[Section]:
    """The sections of all benchmarks that have results."""
    beside, kernel_beside = Beside(found.fanout_rounds), Beside(found.kernel_rounds)
    sections = [
        Section(
            "fanout",
            "Fan-out",
            _FANOUT,
            fanout.figures(found.fanout, beside),
            fanout.tables(found.fanout, beside),
        ),
        Section(
            "kernel",
            "In the kernel",
            _KERNEL,
            kernel.figures(found.kernel, kernel_beside),
            kernel.tables(found.kernel, kernel_beside, found.kernel_processor),
        ),
        Section(
            "switching",
            "Small frames between two ports",
            _SWITCHING,
            switching.figures(found.switching),
            switching.tables(found.switching, Beside(found.switching_rounds)),
        ),
        Section(
            "scaling",
            "More processors",
            _SCALING,
            scaling.figures(found.scaling),
            scaling.tables(found.scaling),
        ),
        Section(
            "pipelines",
            "Pipelines without ports",
            _PIPELINES,
            pipeline.figures(found.pipeline),
            pipeline.tables(found.pipeline),
        ),
        Section("growth", "How cost grows", _GROWTH, pipeline.growth_figures(found.growth), ()),
        Section(
            "overload",
            "Overload",
            _OVERLOAD,
            load.overload_figures(found.overload),
            load.overload_tables(found.overload, found.priority),
        ),
        Section(
            "pktswitch",
            "Sockets against kernel bypass",
            _PKTSWITCH,
            load.pktswitch_figures(found.pktswitch),
            load.pktswitch_tables(found.pktswitch),
        ),
        Section(
            "pisces",
            "P4 beside Open vSwitch",
            _PISCES,
            pisces.figures(found.pisces),
            [
                *pisces.tables(found.pisces),
                *pisces.complexity_tables(found.pisces_complexity, found.pisces_headers),
            ],
        ),
        Section(
            "neobft",
            "Authenticated ordered multicast",
            _NEOBFT,
            [
                *neobft.delay_figures(found.neobft_distributions),
                *neobft.throughput_figures(found.neobft, found.neobft_passes),
            ],
            neobft.tables(found.neobft, found.neobft_delays, found.neobft_passes),
        ),
        Section("mixers", "From mouth to ear", _MIXERS, (), mixers.tables(found.mixers)),
        Section("joins", "Joining a conference", _JOINS, (), joins.tables(found.joins)),
    ]
    return [section for section in sections if section.charts or section.tables]


def html_of(section: Section) -> str:
    figures = "\n".join(page.chart(one) for one in section.charts)
    tables = "\n".join(
        page.table_of(table, is_open=idx == 0) for idx, table in enumerate(section.tables)
    )
    return (
        f'<h2 id="{section.key}">{escape(section.title)}</h2><p>{page.prose(section.about)}</p>'
        f'<div class="figures">{figures}</div>\n{tables}'
    )


_MIXERS = (
    "Musicians' programs without sound cards, as a listener hears them: a click at the input of "
    "one, and when it comes out at all others. JACK's driver has periods of 128 samples at 48 kHz. "
    "Two JackTrips are run with nothing between them, which is their own loop; through the switch "
    "and a conference service (native engine, UDP sockets, spinning), which pass their packets on "
    "as they are; and with Debian's hub, which mixes. Jamulus' server mixes, too. Its client "
    "compresses with Opus and has no loop without a server, so nothing is taken off its delay. "
    "Clients share the load's processor; what is between them has the other."
)
_JOINS = (
    "Participants join the conference service, receive two of ten publishers' tracks, and leave, "
    "as `reprise load` does it: each with requests, sockets and sign-ins of its own. The switch "
    "runs the native engine on a UDP socket. The system divides the processors among switch, "
    "service and load, which are in one network namespace."
)
_NEOBFT = (
    "The sequencer of `p4/aom_hm.p4` (a tag for each receiver, computed in the switch) and of "
    "`p4/aom_pk.p4` (signatures by `reprise-signer` on a port), set up by the configuration "
    "service. One processor has switch and signer, the other the load, which sends requests and "
    "takes every copy. Frames are as long as the published ones: 92 bytes, and 160 (ours 162). "
    "NeoBFT's own figures are from a Tofino and an FPGA; a curve that it computed is called so."
)
_FANOUT = (
    "One 1400-byte packet in, n copies out of the same veth port. A forwarder has one processor, "
    "load and sink the other; a BPF program at the sink (XDP) counts the copies of each viewer "
    "and drops them, the same for all. Like is beside like: spinning with spinning, sleeping with "
    "sleeping."
)
_KERNEL = (
    "The same packets; the P4 program is an XDP program in the kernel, which makes the copies "
    "too. Its peer is a relay in XDP by hand (`lab/peers/xdp_relay`). The kernel makes the copies "
    "on the sender's processor, which so has two things to do; the other one has none. On AF_XDP "
    "the switch has a processor to itself. All copies are counted at the sink by XDP, before the "
    "kernel makes a packet of its own of each; then all at the other sink, behind such a packet. "
    "Samples, whose delays are taken, are packets of the kernel's. For the processor time a "
    "thread of the kernel's own forwards (`threaded` of the interface)."
)
_SWITCHING = (
    "PISCES' network (4,000 stations, 2,000 routes, 1,000 rules), 64 flows in turn. L2 beside "
    "Linux' bridge, L2L3 beside its routing, all beside Open vSwitch and the native engine on "
    "AF_XDP. The load sends from within the kernel."
)
_SCALING = (
    "Each processor has a stream of its own, to 64 viewers. In the kernel a packet is forwarded on "
    "the processor that sends it: the kernel engine has all ports in one switch, and of the relay "
    "by hand one runs for each port, so these share nothing. On AF_XDP one port has a queue a "
    "worker, the workers have half of the processors, and the loads the other half."
)
_PIPELINES = (
    "The switch in memory, without ports: what a packet costs in a pipeline. Naive is the native "
    "engine with every optimisation off; each step adds one to those before it. Every variant gave "
    "the same packets as the interpreter. SFUs make a copy for each of 64 viewers of 1400-byte "
    "packets; L2L3-ACL is PISCES' benchmark, 64-byte packets, 1,000 ternary entries of which the "
    "last matches. Ticks are those of the time stamp counter: there are no hardware counters here."
)
_GROWTH = (
    "The switch in memory again; one thing grows and the rest stays. Dashed with hollow markers: "
    "the interpreter."
)
_OVERLOAD = (
    "A forwarder's capacity is the rate at which it makes the most copies; it is offered a tenth "
    "to ten times that. Solid: AF_XDP, and a thread of the kernel's own, dotted where another line "
    "has its colour; dashed: AF_PACKET, the interpreter, which has another marker, and what runs "
    "on the sender's processor. The kernel engine has stars. On the sender's processor it slows "
    "the load down, which so cannot offer more than is carried; a thread of the kernel's own can "
    "be overrun, and then loses what the ring at either side of it, 256 frames on a veth, has no "
    "room for."
)
_PKTSWITCH = (
    "pktswitch (Baltas and Xylomenos, ISCC 2015) is an SFU on sockets and the same on netmap: "
    "76 % less processing a packet, 89 % less delay. Here pktswitch, built anew, and the switch "
    "are each measured on UDP sockets and on AF_XDP."
)
_PISCES = (
    "PISCES (Shahbaz et al., SIGCOMM 2016) compiles P4 to Open vSwitch and sets it beside Open "
    "vSwitch with rules that do the same. Here P4 runs on the switch; what both know is written "
    "once, and both send the same bytes. Frames go from one port to another, of 64 flows in turn; "
    "4,000 stations, 2,000 routes, 1,000 rules of which the last matches, as published. A switch "
    "has one processor, load and sink the other; on AF_XDP both spin, on AF_PACKET both sleep. On "
    "a veth the kernel's work for a packet that is sent, the same for both, is most of the time, "
    "so rates differ less than the pipelines do: what those cost alone is in their own section. "
    "Where a point is below 95 %, the reason is this. Of a packet's time most is in the kernel, "
    "for either. With flow caches on, ours spends more of its own than Open vSwitch does: on two "
    "lookups in egress, whose control has no cache of its own; on a look whether a checksum was "
    "left to a network card; on the latency's histogram; and on calls for each packet where Open "
    "vSwitch hands on batches of 32. With them off, ours looks up every table, 1,000 ternary "
    "rules among them, where Open vSwitch's classifier still has one masked lookup for all; the "
    "table with a megaflow cache on either side is nearer. docs/performance.md has it part by "
    "part."
)
