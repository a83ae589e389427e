"""Extends `runtime_CLI` by the commands that only `simple_switch` has."""

from runtime_CLI import *
from runtime_CLI import RuntimeAPI, main
from sswitch_runtime import SimpleSwitch
from sswitch_runtime.ttypes import *


class SimpleSwitchAPI(RuntimeAPI):
    """The commands of `simple_switch_CLI`."""

    @staticmethod
    def get_thrift_services(*_: object) -> list:
        """Returns the service and the client class for the additional connection."""
        return [("simple_switch", SimpleSwitch.Client)]

    def __init__(
        self, pre_type: int, standard_client: object, mc_client: object, sswitch_client: object
    ) -> None:
        super().__init__(pre_type, standard_client, mc_client)
        self.sswitch_client = sswitch_client


if __name__ == "__main__":
    main()
