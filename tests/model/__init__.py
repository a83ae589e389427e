"""A model of P4_16, written from the specification, that predicts what random programs do.

The model shares nothing with this repository's compiler and with its engines, which execute
programs. A generator makes each part of a program together with what the part means, prints the
part as P4, and evaluates it. The result is a packet test beside each program;
`crates/dataplane/xdp/tests/model.rs` runs these tests on every engine.
"""
