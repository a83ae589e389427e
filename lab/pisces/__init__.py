"""PISCES' comparison (Shahbaz et al., SIGCOMM 2016): P4 programs against Open vSwitch.

L2, L2L3 and L2L3-ACL on `reprise-switch`, and OpenFlow rules that do the same on Open vSwitch, on
the same kind of port. `network` describes the network, `p4_entries` and `openflow` write it for
each switch, `switches` starts them, `measure` measures, `complexity` counts the source lines.
`./reprise-lab run pisces` does all of it. `switching` sets the kernel engine beside them.
"""
