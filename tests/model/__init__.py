"""A model of P4_16, written from the specification, and random programs that it judges.

It knows nothing of this repository's compiler and engines. A generator makes each part of a program
together with what the part means, prints it as P4, and evaluates it. The result is a packet test
beside each program, which `crates/dataplane/xdp/tests/model.rs` runs on every engine.
"""
