"""PISCES' comparison (Shahbaz et al., SIGCOMM 2016): P4 programs against Open vSwitch.

L2, L2L3 and L2L3-ACL on `reprise-switch`, and OpenFlow rules that do the same on Open vSwitch, on
the same kind of port. `network` is what both are told, `p4_entries` and `openflow` say it to each,
`switches` starts them, `measure` measures, `complexity` counts what has to be written, `figures`
shows it beside the paper's. `./reprise-lab run pisces` does all of it.
"""
