"""Runs a command beside a running switch: `python -m lab.beside_switch [-p FILE.p4] -- COMMAND`.

The command runs in the switch's own network namespace, and this module ends with the command's exit
code. The environment has the switch's gRPC address in `REPRISE_SWITCH`, which `reprise` reads, and
in `REPRISE_P4RUNTIME` for other clients.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.netns import NamespaceError, Star
from lab.process import ChildError, dying_with_parent, interrupt_on_termination
from lab.switch import GRPC_ADDRESS, MissingBuildError, start_switch

N_HOSTS = 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.beside_switch", description=__doc__)
    parser.add_argument("-p", "--program", type=Path, help="left out: the command brings one")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    interrupt_on_termination()
    program = arguments.program.resolve() if arguments.program else None
    environment = dict(os.environ, REPRISE_SWITCH=GRPC_ADDRESS, REPRISE_P4RUNTIME=GRPC_ADDRESS)
    try:
        with tempfile.TemporaryDirectory() as folder, Star(N_HOSTS) as star:
            log = Path(folder, "switch.log")
            with start_switch(star, log, program) as switch:
                argv = dying_with_parent(star.sfu.command(arguments.command))
                code = subprocess.run(argv, env=environment, check=False).returncode
                if switch.exit_code is not None:
                    raise switch.fail(f"ended with exit code {switch.exit_code} meanwhile")
    except (ChildError, MissingBuildError, NamespaceError) as error:
        print(f"lab.beside_switch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
