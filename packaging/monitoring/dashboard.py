"""Writes the dashboard for Grafana, `dashboard.json`, to standard output.

The tables below have the panels. Grafana's own Python package turns them into JSON. The queries
compute rates themselves, so the dashboard needs no rule of `rules.yml`.
"""

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
    VariableRefresh,
    VariableSort,
)

WIDTH = 24
"""The number of columns of Grafana's grid."""
PANEL_HEIGHT = 8
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
SERVICE = '{instance=~"$service"}'
SWITCH = '{instance=~"$switch"}'
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """`help` says what is shown, and what to do if it looks wrong."""

    title: str
    unit: str
    help: str
    queries: Sequence[Query]

    def build(self) -> timeseries.Panel:
        legend = (
            VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
        )
        panel = timeseries.Panel().legend(legend).fill_opacity(10).min(0)
        panel.title(self.title).unit(self.unit).description(self.help)
        panel.datasource(SOURCE).height(PANEL_HEIGHT).span(WIDTH // 3)
        for name, query in zip(string.ascii_uppercase, self.queries, strict=False):
            target = Dataquery().expr(query.expr).legend_format(query.legend)
            panel.with_target(target.range().ref_id(name))
        return panel


@dataclass(frozen=True, slots=True)
class Stat:
    """Each instance's last value, named by `words` if these are set, red below `red_below`."""

    title: str
    unit: str
    help: str
    query: Query
    words: Sequence[str] = ()
    red_below: float | None = None
    shows_name: bool = False

    def build(self) -> stat.Panel:
        steps = [Threshold(value=None, color="blue")]
        if self.red_below is not None:
            steps = [
                Threshold(value=None, color="red"),
                Threshold(value=self.red_below, color="green"),
            ]
        thresholds = ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
        last = ReduceDataOptions().calcs(["lastNotNull"]).values(False)
        panel = stat.Panel().thresholds(thresholds).reduce_options(last)
        panel.color_mode(BigValueColorMode.VALUE).graph_mode(BigValueGraphMode.NONE)
        if self.shows_name:
            panel.text_mode(BigValueTextMode.NAME)
        if self.words:
            panel.mappings([choice(self.words)])
        panel.title(self.title).unit(self.unit).description(self.help)
        panel.datasource(SOURCE).height(PANEL_HEIGHT // 2).span(WIDTH // 6)
        query = Dataquery().expr(self.query.expr).legend_format(self.query.legend)
        # An instant query, so that no old value is shown of an instance that is no longer scraped.
        return panel.with_target(query.instant().ref_id("A"))


def choice(words: Sequence[str]) -> ValueMapping:
    return ValueMap(
        {str(value): ValueMappingResult(text=word, index=value) for value, word in enumerate(words)}
    )


def rate(metric: str, where: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{where}{RATE}))"


def quantile(of: float, histogram: str, where: str, by: str) -> str:
    return f"histogram_quantile({of}, {rate(f'{histogram}_bucket', where, f'{by}, le')})"


CONFERENCE = "reprise_conference"
DROPPED = '{instance=~"$service", verdict=~"drop_.*"}'

SERVICE_PANELS: Sequence[Panel | Stat] = (
    Stat(
        "Service leads",
        "bool_yes_no",
        "Of services that share a store one leads, and the others stand by. If none leads, ask "
        "`GET /readyz` of each why, and start one or make its store answer.",
        Query(f"{CONFERENCE}_leader{SERVICE}", "{{instance}}"),
        words=("stands by", "leads"),
    ),
    Stat(
        "Switch whole",
        "bool_yes_no",
        "Whether the switch is connected and has all that the conferences need. If the service "
        "that leads says no, its log has the reason; start the switch, and wait for a second.",
        Query(f"{CONFERENCE}_switch_whole{SERVICE} and {CONFERENCE}_leader == 1", "{{instance}}"),
        words=("no", "whole"),
        red_below=1,
    ),
    Stat(
        "Conferences",
        "short",
        "Conferences of the service that leads; one has at most 10,000. If there are many more "
        "than people meet in, the backend does not end them.",
        Query(f"sum({CONFERENCE}_conferences{SERVICE})", "conferences"),
    ),
    Stat(
        "Participants",
        "short",
        "Participants of all conferences. If the number falls at once, look at the log for "
        "`left`: their tokens ended, or they gave no sign for `gone_s`.",
        Query(f"sum({CONFERENCE}_participants{SERVICE})", "participants"),
    ),
    Stat(
        "Legs signed in",
        "percentunit",
        "Which part of the legs has a signed-in socket. If it is low, hosts cannot reach the "
        "switch by UDP: run `reprise doctor --service URL --token TOKEN` on one.",
        Query(
            f"sum({CONFERENCE}_signed_in_legs{SERVICE}) / sum({CONFERENCE}_legs{SERVICE})",
            "signed in",
        ),
    ),
    Stat(
        "Service runs for",
        "s",
        "Time since the process started. If it is short and nobody has started it, `journalctl "
        "-u reprise` has its last words.",
        Query(f"time() - process_start_time_seconds{SERVICE}", "{{instance}}"),
    ),
    Panel(
        "Participants and tracks",
        "short",
        "What the conferences have. If subscriptions stay at 0 while tracks are published, "
        "clients do not subscribe: look at their errors.",
        (
            Query(f"sum({CONFERENCE}_participants{SERVICE})", "participants"),
            Query(f"sum({CONFERENCE}_tracks{SERVICE})", "tracks"),
            Query(f"sum({CONFERENCE}_subscriptions{SERVICE})", "subscriptions"),
        ),
    ),
    Panel(
        "Legs",
        "short",
        "Legs, and those with a signed-in socket; a switch has room for 32,767. If the lines "
        "part, hosts cannot reach the switch by UDP, or have ended without leaving.",
        (
            Query(f"sum({CONFERENCE}_legs{SERVICE})", "legs"),
            Query(f"sum({CONFERENCE}_signed_in_legs{SERVICE})", "signed in"),
        ),
    ),
    Panel(
        "Event streams",
        "short",
        "Open event streams. If they fall at once, the service was started again, or a proxy "
        "closes WebSockets that are silent.",
        (Query(f"{CONFERENCE}_websockets{SERVICE}", "{{instance}}"),),
    ),
    Panel(
        "Requests by status",
        "reqps",
        "Answered requests. 401: look at keys and clocks of the backend; 429: at the limits; "
        "503: at the store, or whether the service drains; other ones above 499: at the log.",
        (Query(rate(f"{CONFERENCE}_http_requests_total", SERVICE, "status"), "{{status}}"),),
    ),
    Panel(
        "Request time",
        "s",
        "From a request's head to its answer's. If it grows together with the store's time, the "
        "disk or etcd is slow; if alone, the service lacks a processor.",
        tuple(
            Query(quantile(of, f"{CONFERENCE}_http_request_seconds", SERVICE, "instance"), legend)
            for of, legend in ((0.5, "{{instance}} p50"), (0.99, "{{instance}} p99"))
        ),
    ),
    Panel(
        "Slowest routes",
        "s",
        "The 99th percentile of each route's time. If one route alone is slow, look at who asks "
        "it; backup and `why` read much.",
        (
            Query(
                quantile(0.99, f"{CONFERENCE}_http_request_seconds", SERVICE, "route"), "{{route}}"
            ),
        ),
    ),
    Panel(
        "Store writes",
        "wps",
        "Writes of the store by result. If some failed, requests got 503: the log has the "
        "error; make room on the disk, put the file back, or make etcd answer.",
        (Query(rate(f"{CONFERENCE}_store_writes_total", SERVICE, "result"), "{{result}}"),),
    ),
    Panel(
        "Store write time",
        "s",
        "How long writes take. If it is above some tens of milliseconds, look for other work on "
        "the disk, or at etcd's nodes and the network to them.",
        tuple(
            Query(quantile(of, f"{CONFERENCE}_store_write_seconds", SERVICE, "instance"), legend)
            for of, legend in ((0.5, "{{instance}} p50"), (0.99, "{{instance}} p99"))
        ),
    ),
    Panel(
        "Events left out",
        "eps",
        "Events that streams lack, since their readers did not keep up. If there are any, look "
        "at the backend and the network to it; it must read the conference again after `lost`.",
        (Query(rate(f"{CONFERENCE}_events_lost_total", SERVICE, "instance"), "{{instance}}"),),
    ),
    Panel(
        "Webhooks",
        "ops",
        "Deliveries of events to webhooks, and events that one will never get. If some failed, "
        "the log says what the receiver answers.",
        (
            Query(rate(f"{CONFERENCE}_webhook_tries_total", SERVICE, "result"), "{{result}}"),
            Query(rate(f"{CONFERENCE}_webhook_events_lost_total", SERVICE, "instance"), "lost"),
        ),
    ),
    Panel(
        "Certificate is good for",
        "s",
        "How long the certificate of HTTPS is good for; 0 without HTTPS. If it is less than two "
        "weeks, renew the file and reload the service.",
        (
            Query(
                f"clamp_min({CONFERENCE}_certificate_expiry_seconds{SERVICE} - time(), 0)",
                "{{instance}}",
            ),
        ),
    ),
    Panel(
        "Drains",
        "bool",
        "Whether nobody new is let in. If it stays, stop the service, or end the drain.",
        (Query(f"{CONFERENCE}_draining{SERVICE}", "{{instance}}"),),
    ),
)

MEDIA_PANELS: Sequence[Panel | Stat] = (
    Panel(
        "Media packets",
        "pps",
        "Packets from signed-in sockets, and copies to them. If copies stop while packets come, "
        "look at the drops on the right, then ask `reprise why` for one receiver.",
        (
            Query(rate(f"{CONFERENCE}_received_packets_total", SERVICE, "instance"), "received"),
            Query(rate(f"{CONFERENCE}_sent_packets_total", SERVICE, "instance"), "sent"),
        ),
    ),
    Panel(
        "Media bits",
        "bps",
        "The same in bits of whole frames. If what is sent nears the interface's rate, lower "
        "the qualities or put conferences on another switch.",
        (
            Query(
                f"8 * {rate(f'{CONFERENCE}_received_bytes_total', SERVICE, 'instance')}", "received"
            ),
            Query(f"8 * {rate(f'{CONFERENCE}_sent_bytes_total', SERVICE, 'instance')}", "sent"),
        ),
    ),
    Panel(
        "Copies of a packet",
        "none",
        "How many receivers a packet has on average. If it is below 1, publishers send to "
        "nobody: they should mute or end tracks without subscriptions.",
        (
            Query(
                f"{rate(f'{CONFERENCE}_sent_packets_total', SERVICE, 'instance')} / "
                f"{rate(f'{CONFERENCE}_received_packets_total', SERVICE, 'instance')}",
                "{{instance}}",
            ),
        ),
    ),
    Panel(
        "Drops by verdict",
        "pps",
        "Packets that the program dropped, by why. drop_policed: a publisher sends more than "
        "his `max_kbps`; drop_not_rtp: the wrong transport; drop_not_signed_in: a host without "
        "hellos; drop_no_receiver: nobody has subscribed. `reprise why` names who.",
        (Query(f"{rate(f'{CONFERENCE}_verdicts_total', DROPPED, 'verdict')} > 0", "{{verdict}}"),),
    ),
    Panel(
        "Dropped part of the packets",
        "percentunit",
        "Which part of the arriving packets is dropped, those without a receiver apart. If it "
        "is above 1 %, the panel on the left says why.",
        (
            Query(
                rate(
                    f"{CONFERENCE}_verdicts_total",
                    '{instance=~"$service", verdict=~"drop_.*", verdict!="drop_no_receiver"}',
                    "instance",
                )
                + " / "
                + rate(f"{CONFERENCE}_verdicts_total", SERVICE, "instance"),
                "{{instance}}",
            ),
        ),
    ),
    Panel(
        "Hellos by outcome",
        "pps",
        "Hellos that the switch passed on. ignored_signature: a wrong key; ignored_unknown_leg: "
        "the leg has ended; ignored_in_use: two programs have one leg; ignored_no_hello and "
        "ignored_answer: no host sends this, so capture it and block the address.",
        (Query(rate(f"{CONFERENCE}_hellos_total", SERVICE, "outcome"), "{{outcome}}"),),
    ),
)

SWITCH_PANELS: Sequence[Panel | Stat] = (
    Stat(
        "Engine",
        "none",
        "The engine and version of the switch. If it is not the one that `reprise-switch "
        "--engine` should have, look at SWITCH_OPTIONS and start the switch again.",
        Query(f"reprise_build_info{SWITCH}", "{{engine}} {{version}}"),
        shows_name=True,
    ),
    Stat(
        "Kernel forwards",
        "bool_yes_no",
        "Whether the kernel engine forwards at each port; empty with other engines. If not, "
        "`offload_refused` in the switch's log has the reason.",
        Query(f"reprise_port_offloaded{SWITCH}", "{{name}}"),
        words=("no", "yes"),
        red_below=1,
    ),
    Stat(
        "Links",
        "bool_on_off",
        "Whether each port's interface is up; a UDP socket has none. If it is down or gone, "
        "look at `ip link` and the cable; the switch goes on by itself.",
        Query('reprise_port_link{instance=~"$switch", state="up"}', "{{name}}"),
        words=("down", "up"),
        red_below=1,
    ),
    Stat(
        "Unserved queues",
        "short",
        "Receive queues of the interfaces that no socket serves. If it is not 0, packets are "
        "lost: start the switch again, or set the queues back with `ethtool -L`.",
        Query(f"reprise_port_unserved_queues{SWITCH}", "{{name}}"),
    ),
    Stat(
        "Forwarding threads",
        "short",
        "Threads that forward. If it is not what `--workers` should have, look at "
        "SWITCH_OPTIONS; more want as many processors.",
        Query(f"reprise_workers{SWITCH}", "{{instance}}"),
    ),
    Stat(
        "Switch runs for",
        "s",
        "Time since the process started. If it is short and nobody has started it, `journalctl "
        "-u reprise-switch` has its last words.",
        Query(f"time() - process_start_time_seconds{SWITCH}", "{{instance}}"),
    ),
    Panel(
        "Port packets",
        "pps",
        "Frames that came in and left at each port. If frames come and none leave, look at the "
        "drops below, and at the verdicts above.",
        (
            Query(rate("reprise_port_received_packets_total", SWITCH, "name"), "{{name}} in"),
            Query(rate("reprise_port_transmitted_packets_total", SWITCH, "name"), "{{name}} out"),
        ),
    ),
    Panel(
        "Port bits",
        "bps",
        "The same in bits. If it nears the interface's rate, lower the qualities, or put "
        "conferences on another switch.",
        (
            Query(
                f"8 * {rate('reprise_port_received_bytes_total', SWITCH, 'name')}", "{{name}} in"
            ),
            Query(
                f"8 * {rate('reprise_port_transmitted_bytes_total', SWITCH, 'name')}",
                "{{name}} out",
            ),
        ),
    ),
    Panel(
        "Time in the switch",
        "s",
        "The longest time from a frame's arrival to a copy's leaving in the last minute. If it "
        "is above some milliseconds, the switch lacks a processor, or the port is full.",
        (Query(f"reprise_port_latency_recent_max_seconds{SWITCH}", "port {{port}}"),),
    ),
    Panel(
        "Ring drops",
        "pps",
        "Frames that were lost before the switch took them, by reason. rx_ring_full, "
        "rx_no_buffer and rx_too_old: give the switch processors, a larger `--rx-ring`, AF_XDP "
        "or the kernel engine; switch.md, Drop reasons, has the others.",
        (
            Query(
                rate("reprise_port_receive_drops_total", SWITCH, "name, reason"),
                "{{name}} {{reason}}",
            ),
        ),
    ),
    Panel(
        "Frames not sent",
        "pps",
        "Frames that left the program and not the port, by reason. tx_no_room: `--egress-rate` "
        "or a faster link; tx_unreachable: a route; tx_link_down: the link; tx_too_long: the "
        "MTU.",
        (
            Query(
                rate("reprise_port_transmit_drops_total", SWITCH, "name, reason"),
                "{{name}} {{reason}}",
            ),
        ),
    ),
    Panel(
        "Drops in the switch",
        "pps",
        "Packets that the switch dropped, by reason; ingress_drop is the program's, which the "
        "verdicts above explain. Queues that are full and device_refused: too many copies for "
        "the interface; switch.md, Drop reasons, has each.",
        (Query(f"{rate('reprise_drops_total', SWITCH, 'reason')} > 0", "{{reason}}"),),
    ),
    Panel(
        "Longest queue of a port",
        "short",
        "The most packets that waited in one queue in the last minute. If it stays above 0 "
        "between bursts, the port cannot send what is due: lower the qualities, or take a "
        "faster interface.",
        (Query(f"reprise_port_queue_recent_max_packets{SWITCH}", "port {{port}}"),),
    ),
    Panel(
        "Fill of tables",
        "percentunit",
        "Entries of each table beside its size. If sockets or receivers near 100 %, nobody else "
        "signs in: end unused conferences, or use another switch and service.",
        (
            Query(
                'reprise_table_entries{instance=~"$switch", table!~".*verdicts"} / '
                'reprise_table_size{instance=~"$switch", table!~".*verdicts"}',
                "{{table}}",
            ),
        ),
    ),
    Panel(
        "Hellos that do not reach the service",
        "pps",
        "Packet-ins that reached no controller, by reason. packet_in_no_primary: no service "
        "leads; packet_in_stream_full: the service reads too slowly and lacks a processor.",
        (
            Query(
                rate(
                    "reprise_controller_drops_total",
                    '{instance=~"$switch", reason=~"packet_in_.*"}',
                    "reason",
                ),
                "{{reason}}",
            ),
        ),
    ),
)


def instances(name: str, label: str, metric: str) -> QueryVariable:
    """A variable with the instances that have a metric; all of them at first."""
    return (
        QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({metric}, instance)")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def dashboard() -> Dashboard:
    board = (
        Dashboard("Reprise")
        .uid("reprise")
        .description("Conference services and their switches. docs/operate.md, Watch it, has more.")
        .tags(["reprise", "sfu"])
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("10s")
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(instances("service", "Service", f"{CONFERENCE}_leader"))
        .with_variable(instances("switch", "Switch", "reprise_workers"))
    )
    rows = (("Service", SERVICE_PANELS), ("Media", MEDIA_PANELS), ("Switch", SWITCH_PANELS))
    for title, panels in rows:
        board.with_row(Row(title))
        for panel in panels:
            board.with_panel(panel.build())
    return board


def main() -> None:
    built = dashboard().build()
    # Grafana refers to a panel by its number.
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    print(json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
