"""The rules and the dashboard of packaging/monitoring: what they ask for exists, and alerts fire.

`promtool` tests the rules in virtual time. A real Prometheus scrapes a service and a switch, first
while all is well, then with faults. In this Prometheus the rules compute rates over seconds, and
alerts fire at once.
"""

import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from reprise_conference import ProblemError

from lab.process import REPOSITORY
from tests.needs import need
from tests.service.monitored import MONITORING, WINDOW, Monitored, false_hellos, get
from tests.service.running import LIMIT_S, rtp

RULES = MONITORING / "rules.yml"
BOARD = MONITORING / "dashboard.json"
RULES_TEST = Path(__file__).with_name("rules_test.yml")
OPERATE = REPOSITORY / "docs/operate.md"
SELECTOR = re.compile(
    r"(?<![\w:])((?:\w+:)?reprise_\w+(?::\w+)?|up|process_start_time_seconds)(?![\w:(])(\{[^}]*\})?"
)
MATCHER = re.compile(r'(\w+)(=~|=|!~|!=)"((?:[^"\\]|\\.)*)"')
PROMTOOL_LIMIT_S = 600.0
"""It matters only if promtool hangs: rules over hours take ten seconds of processor time."""
OF_A_SLOW_MACHINE = {
    "RepriseStoreSlow",
    "RepriseRequestsSlow",
    "RepriseSwitchSlow",
    "RepriseRingDrops",
}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def panels() -> list[dict[str, Any]]:
    """Returns the dashboard's panels except those of the type `row`."""
    board = json.loads(BOARD.read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def without_variables(expr: str) -> str:
    for name, value in (("$service", ".*"), ("$switch", ".*"), ("$__rate_interval", WINDOW)):
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def board_queries() -> list[tuple[str, str, str]]:
    """Title, expression and legend of all queries."""
    return [
        (panel["title"], without_variables(target["expr"]), target["legendFormat"])
        for panel in panels()
        for target in panel["targets"]
    ]


def selectors(expr: str) -> list[str]:
    """The selectors in an expression, one for each alternative value that a selector names.

    `a{b=~"c_(d|e)"}` gives `a{b=~"c_d"}` and `a{b=~"c_e"}`, so that a wrong name shows.
    """
    found = []
    for name, matchers in SELECTOR.findall(expr):
        ways = [
            [f'{label}{kind}"{value}"' for value in alternatives(text)]
            for label, kind, text in MATCHER.findall(matchers)
        ]
        found += [f"{name}{{{', '.join(way)}}}" for way in itertools.product(*ways)]
    return found


def alternatives(regex: str) -> list[str]:
    """Returns the words that a regular expression matches; it may have at most one group."""
    group = re.fullmatch(r"(.*?)\((.*)\)(.*)", regex)
    if group is None:
        return regex.split("|")
    before, words, after = group.groups()
    return [f"{before}{word}{after}" for word in words.split("|")]


def promtool(*arguments: str | Path) -> str:
    need("" if shutil.which("promtool") else "promtool (Debian's package prometheus)")
    done = subprocess.run(
        ["promtool", *arguments],
        capture_output=True,
        text=True,
        timeout=PROMTOOL_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules_and_the_example_of_a_configuration() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)
    # The configuration names the file with the rules.
    assert "SUCCESS" in promtool("check", "config", MONITORING / "prometheus.yml")


def test_every_alert_fires_and_is_silent_where_the_rules_test_says() -> None:
    assert "SUCCESS" in promtool("test", "rules", RULES_TEST)
    cases = yaml.safe_load(RULES_TEST.read_text())["tests"]
    expected = {
        case["name"]: [
            {re.findall(r'alertname="(\w+)"', sample["labels"])[0] for sample in at["exp_samples"]}
            for at in case["promql_expr_test"]
        ]
        for case in cases
    }
    assert len(expected) == len(cases)
    for alert in (rule["alert"] for rule in alerts()):
        fires = [moments for moments in expected.values() if any(alert in at for at in moments)]
        assert any(alert not in moments[0] for moments in fires), alert


def test_every_alert_says_what_to_do_and_the_page_lists_it() -> None:
    page = OPERATE.read_text()
    headings = re.findall(r"(?m)^#+ (.+)$", page)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    listed = dict(re.findall(r"(?m)^\| `(Reprise\w+)` \| (\w+) \|", page))
    assert listed == {rule["alert"]: rule["labels"]["severity"] for rule in alerts()}
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule
        assert rule["for"], rule
        summary, description, runbook = (
            rule["annotations"][name] for name in ("summary", "description", "runbook")
        )
        assert summary.startswith("{{ $labels."), rule
        assert description.endswith("."), rule
        assert runbook.removeprefix("docs/operate.md#") in anchors, rule


def test_the_dashboard_is_what_its_program_writes() -> None:
    argv: list[str | Path] = [sys.executable, MONITORING / "dashboard.py"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    if os.environ.get("UPDATE_EXPECT") == "1":
        BOARD.write_text(done.stdout)
    assert BOARD.read_text() == done.stdout, "UPDATE_EXPECT=1 writes it anew"


def test_every_panel_has_a_title_a_unit_and_a_sentence() -> None:
    register_default_plugins()
    written = json.loads(BOARD.read_text())
    # Grafana's own package understands everything in the dashboard's file.
    read = Dashboard.from_json(written)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == written
    rows = [panel["title"] for panel in written["panels"] if panel["type"] == "row"]
    assert rows == ["Service", "Media", "Switch"]
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)
    for panel in panels():
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert re.search(r"(If |if |: ).*\.$", panel["description"]), panel["title"]
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names), panel["title"]
        # No panel goes beyond the grid's 24 columns.
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]


@pytest.fixture
def monitored(tmp_path: Path, system_root: None) -> Iterator[Monitored]:
    need("" if shutil.which("prometheus") else "prometheus (Debian's package prometheus)")
    with Monitored(tmp_path) as monitored:
        yield monitored


def expect_data(monitored: Monitored, title: str, expr: str, legend: str) -> None:
    """Waits until a query of the dashboard has numbers, with the labels of its legend."""
    labels = set(re.findall(r"{{(\w+)}}", legend))
    numbers = itertools.count()

    def has_data() -> bool:
        # Makes a request: without any, a quantile is NaN.
        monitored.join_again(next(numbers))
        found = monitored.prometheus.query(expr)
        return any(not math.isnan(value) for _, value in found) and all(
            labels <= metric.keys() for metric, _ in found
        )

    monitored.wait(has_data, lambda: f"{title}: {expr}: {monitored.prometheus.query(expr)}")


def test_every_query_of_the_dashboard_has_data_and_no_alert_fires(monitored: Monitored) -> None:
    def scenario() -> None:
        for title, expr, legend in board_queries():
            expect_data(monitored, title, expr, legend)
        for rule in rules():
            if "record" in rule:
                expect_data(monitored, rule["record"], rule["record"], "")
        variables = json.loads(BOARD.read_text())["templating"]["list"]
        asked = [one["query"] for one in variables if one["type"] == "query"]
        for metric, label in (re.findall(r"\w+", query)[1:] for query in asked):
            assert all(label in one for one in monitored.prometheus.series(metric)), metric
            assert monitored.prometheus.series(metric), metric
        assert len(asked) == 2
        # All other rules were evaluated meanwhile.
        assert monitored.prometheus.firing().keys() <= OF_A_SLOW_MACHINE
        [recorded] = [group for group in evaluated(monitored) if group["name"] == "reprise-media"]
        assert {rule["health"] for rule in recorded["rules"]} == {"ok"}

    monitored.call(scenario)


def evaluated(monitored: Monitored) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = monitored.prometheus.ask("rules")["groups"]
    return groups


def test_faults_fire_their_alerts_and_nothing_is_misspelt(monitored: Monitored) -> None:
    fired: dict[str, dict[str, str]] = {}

    def scenario() -> None:
        fired.update(people_misbehave(monitored))
        fired.update(the_store_is_gone(monitored))
        fired.update(the_switch_gets_no_processor(monitored))
        fired.update(things_of_the_switch_are_gone(monitored))
        fired.update(processes_end(monitored))
        exprs = [rule["expr"] for rule in rules()] + [expr for _, expr, _ in board_queries()]
        for selector in {one for expr in exprs for one in selectors(expr)}:
            assert monitored.prometheus.series(selector), f"nothing has been {selector}"

    monitored.call(scenario)
    for name, annotations in fired.items():
        text = " ".join(annotations.values())
        assert not re.search("<no value>|error expanding|%!", text), f"{name}: {text}"


def people_misbehave(monitored: Monitored) -> dict[str, dict[str, str]]:
    false = false_hellos(monitored.greedy_leg)

    def misbehave() -> None:
        for _ in range(40):
            assert get(f"{monitored.running.url}/v1/conferences")[0] in (401, 429)
        for number in range(60):
            monitored.greedy.send(rtp(number, bytes(1_000)))
            monitored.camera.send(bytes(300))
            monitored.stray.send(rtp(number))
        for _ in range(200):
            for one in false:
                monitored.stray.send(one)

    expected = ["BadTokens", "TooManyRequests", "FalseHellos", "HelloRate"]
    expected += ["Policed", "NotRtp", "NotSignedIn"]
    return monitored.alerts([f"Reprise{name}" for name in expected], misbehave)


def the_store_is_gone(monitored: Monitored) -> dict[str, dict[str, str]]:
    store, away = monitored.running.store, monitored.running.store.with_name("away")
    numbers = itertools.count()

    def write() -> None:
        with pytest.raises(ProblemError) as refused:
            monitored.bob.join("c", "bob", f"Bobby {next(numbers)}")
        assert refused.value.status == 503

    store.rename(away)
    try:
        return monitored.alerts(["RepriseStoreFails", "RepriseRequestsFail"], write)
    finally:
        away.rename(store)


def the_switch_gets_no_processor(monitored: Monitored) -> dict[str, dict[str, str]]:
    def flood() -> None:
        monitored.running.switch.signal(signal.SIGSTOP)
        try:
            # These are more packets than the socket's buffer has room for.
            for number in range(10_000):
                monitored.stray.send(rtp(number, bytes(1_000)))
        finally:
            monitored.running.switch.signal(signal.SIGCONT)

    return monitored.alerts(["RepriseRingDrops"], flood)


def things_of_the_switch_are_gone(monitored: Monitored) -> dict[str, dict[str, str]]:
    monitored.state.unlink()
    monitored.place.here.run(["ip", "link", "set", "far", "down"])
    return monitored.alerts(["ReprisePortDown", "RepriseStateNotCurrent"])


def processes_end(monitored: Monitored) -> dict[str, dict[str, str]]:
    running, prometheus = monitored.running, monitored.prometheus
    started = 'process_start_time_seconds{job="reprise-conference"}'
    for _ in range(3):
        before = prometheus.query(started)
        running.service.stop(signal.SIGKILL)
        running.service.start()
        running.wait()
        monitored.wait(lambda before=before: prometheus.query(started) not in ([], before))  # type: ignore[misc]
    fired = monitored.alerts(["RepriseRestarts"])
    running.switch.stop(signal.SIGKILL)
    fired |= monitored.alerts(["RepriseSwitchDown", "RepriseSwitchNotWhole"])
    running.service.stop(signal.SIGKILL)
    return fired | monitored.alerts(["RepriseServiceDown", "RepriseNobodyLeads"])
