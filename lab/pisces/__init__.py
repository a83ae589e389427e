"""PISCES' comparison (Shahbaz et al., SIGCOMM 2016): P4 programs against Open vSwitch.

`reprise-switch` runs the programs L2, L2L3 and L2L3-ACL. Open vSwitch runs OpenFlow rules that do
the same, on the same kind of port. `network` describes the network, `p4_entries` and `openflow`
translate it for each switch, `switches` starts the switches, `measure` measures them, `complexity`
counts the source lines. `./reprise-lab run pisces` does all of this. `switching` compares the
kernel engine with these switches.
"""
