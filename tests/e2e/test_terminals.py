"""The P4Runtime and Thrift shells at a terminal: Tab, history, Ctrl-C and Ctrl-D."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

from lab.controller import REPRISE
from lab.switch import RELEASE, require_build
from tests.e2e.conftest import Switch
from tests.e2e.terminal import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal

BMV2_CLI = RELEASE / "simple_switch_CLI"
PROMPT = "p4rt> "
BMV2_PROMPT = "RuntimeCmd: "
ROUTE = "table add routes dst_addr=10.0.1.0/24 -> drop"


@contextlib.contextmanager
def silent(switch: Switch) -> Iterator[None]:
    """Stops the switch during the block, so that it answers no call."""
    os.kill(switch.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(switch.process.pid, signal.SIGCONT)


def p4rt(switch: Switch, folder: Path) -> Terminal:
    environment = {**os.environ, "REPRISE_SWITCH": switch.grpc, "XDG_STATE_HOME": str(folder)}
    return Terminal([str(REPRISE), "p4rt"], environment)


def bmv2_cli(switch: Switch) -> Terminal:
    require_build(BMV2_CLI)
    argv = [str(BMV2_CLI), "--thrift-ip", "127.0.0.1", "--thrift-port", switch.thrift_port]
    return Terminal(argv, os.environ)


def test_p4rt_completes_lists_and_remembers(switch: Switch, tmp_path: Path) -> None:
    with p4rt(switch, tmp_path) as shell:
        assert "Tab completes" in shell.expect(PROMPT)
        # Each Tab completes one word: a noun, a verb, an object, a match field, an action and its
        # parameters.
        shell.press("tab" + TAB)
        shell.expect("p4rt> table ")
        shell.press("a" + TAB + "ro" + TAB)
        shell.expect("p4rt> table add routes ")
        shell.press("d" + TAB + "10.0.1.0/24 -> fo" + TAB)
        shell.expect("p4rt> table add routes dst_addr=10.0.1.0/24 -> forward(")
        shell.press("d" + TAB + "08:00:00:00:01:11, p" + TAB + "2" + TAB)
        shell.expect("forward(dst_addr=08:00:00:00:01:11, port=2")
        shell.press(")")
        assert shell.run("", PROMPT) == []
        entry = (
            "table add routes dst_addr=10.0.1.0/24 -> forward(dst_addr=08:00:00:00:01:11, port=2)"
        )
        default = "table default routes -> to_controller(reason=1)"
        listed = [f"{entry}  # 0 packets 0 bytes", default]
        assert shell.run("table list routes", PROMPT) == listed
        # The Up key brings back the last line, and then the line before it, which is now refused.
        shell.press(UP)
        shell.expect("p4rt> table list routes")
        assert shell.run("", PROMPT) == listed
        shell.press(UP + UP)
        shell.expect(f"p4rt> {entry}")
        assert "AlreadyExists" in "".join(shell.run("", PROMPT))
        # Tab lists several candidates, and the typed text stays.
        shell.press("table list " + TAB + TAB)
        assert {"filters", "hosts", "routes"} <= set(shell.expect("p4rt> table list ").split())
        shell.press(CTRL_C)
        shell.expect(f"\n{PROMPT}")
        shell.press(CTRL_D)
        assert shell.end() == 0
        assert shell.is_as_it_was()
    # The next session has the history.
    with p4rt(switch, tmp_path) as shell:
        shell.expect(PROMPT)
        shell.press(UP)
        shell.expect(f"p4rt> {entry}")


def test_ctrl_c_at_the_prompt_of_p4rt_gives_up_the_line_and_an_open_batch_stays(
    switch: Switch, tmp_path: Path
) -> None:
    with p4rt(switch, tmp_path) as shell:
        shell.expect(PROMPT)
        shell.press("table add routes dst" + CTRL_C)
        shell.expect(f"\n{PROMPT}")
        assert shell.run("begin rollback", "p4rt (0 updates collected)> ") == []
        assert shell.run(ROUTE, "p4rt (1 update collected)> ") == []
        shell.press("table add routes " + CTRL_C)
        shell.expect("\np4rt (1 update collected)> ")
        assert shell.run("commit", PROMPT) == ["1 update written"]
        assert ROUTE in shell.run("table list routes", PROMPT)[0]
        # A batch is lost when the shell ends, and the shell says so.
        shell.run("begin", "p4rt (0 updates collected)> ")
        shell.run("table delete routes dst_addr=10.0.1.0/24", "p4rt (1 update collected)> ")
        shell.press(CTRL_D)
        assert shell.end() == 0
        assert "reprise: the open batch is forgotten: 1 update" in shell.rest()
    with p4rt(switch, tmp_path) as shell:
        shell.expect(PROMPT)
        assert ROUTE in shell.run("table list routes", PROMPT)[0]


def test_ctrl_c_ends_a_command_of_p4rt_and_not_the_shell(switch: Switch, tmp_path: Path) -> None:
    with p4rt(switch, tmp_path) as shell:
        shell.expect(PROMPT)
        shell.press("watch packets" + ENTER)
        shell.wait_until_a_command_runs()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"hello", ("127.0.0.1", switch.udp_port))
        shell.expect("packet in ingress_port=1")
        # `watch` can end only by Ctrl-C, so the shell prints no message about it.
        shell.press(CTRL_C)
        shell.expect(f"\n^C{PROMPT}")
        # After Ctrl-C during a commit the batch is gone, and the shell says so.
        shell.run("begin", "p4rt (0 updates collected)> ")
        shell.run(ROUTE, "p4rt (1 update collected)> ")
        with silent(switch):
            shell.press("commit" + ENTER)
            shell.wait_until_a_command_runs()
            shell.interrupt_until("interrupted: the switch may still carry the write out")
            shell.expect(f"\n{PROMPT}")
        assert shell.run("abort", PROMPT) == ["reprise: no batch is open: `begin` opens one"]
        assert shell.run("exit", "") == []
        assert shell.end() == 0


def test_simple_switch_cli_completes_and_ctrl_c_gives_up_the_line(switch: Switch) -> None:
    with bmv2_cli(switch) as shell:
        shell.expect(BMV2_PROMPT)
        shell.press("table_a" + TAB + "rou" + TAB + "f" + TAB)
        shell.expect(f"{BMV2_PROMPT}table_add RouterIngress.routes RouterIngress.forward ")
        shell.press(CTRL_C)
        shell.expect(f"\n{BMV2_PROMPT}")
        line = "table_add routes drop 10.0.1.0/24 =>"
        assert "Entry has been added with handle 0" in shell.run(line, BMV2_PROMPT)
        shell.press(UP)
        shell.expect(f"{BMV2_PROMPT}{line}")
        shell.press(CTRL_C)
        shell.expect(f"\n{BMV2_PROMPT}")
        assert shell.run("table_num_entries routes", BMV2_PROMPT) == ["1"]
        shell.press(CTRL_D)
        assert shell.end() == 0
        assert shell.is_as_it_was()


def test_simple_switch_cli_says_why_ports_are_refused(switch: Switch) -> None:
    with bmv2_cli(switch) as shell:
        shell.expect(BMV2_PROMPT)
        for line, instead in (
            ("port_add veth7 7", "an interface may be removed and added again under its name"),
            ("port_remove 1", "gNMI's config/enabled disables a port and enables it again"),
        ):
            refused, reason = shell.run(line, BMV2_PROMPT)
            assert refused == "Invalid device manager operation (ERROR)"
            assert "ports are given when the switch is started, with -i PORT@INTERFACE" in reason
            assert reason.endswith(instead)


def test_ctrl_c_ends_simple_switch_cli_while_the_switch_does_not_answer(switch: Switch) -> None:
    with bmv2_cli(switch) as shell:
        shell.expect(BMV2_PROMPT)
        with silent(switch):
            shell.press("show_ports" + ENTER)
            shell.wait_until_a_command_runs()
            shell.press(CTRL_C)
            assert shell.end() == -signal.SIGINT
        assert shell.is_as_it_was()
