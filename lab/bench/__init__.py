"""The benchmark of the switch beside its peers: fan-out over veth, pipeline parts, overload."""
