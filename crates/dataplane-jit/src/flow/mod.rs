//! The flow cache: what the tables of a control found for the packets before.
//!
//! When a program is compiled, [`plan`] follows what each table's key depends on, back to the fields
//! and the validity of headers that a packet has when it comes to the control. Where that is more
//! than can be known (a register, a meter, a random number, a selector's choice) the table is not
//! cached; so a packet that agrees with another in the plan's inputs finds the same entries in
//! every cached table that it comes to, until some table changes.
//!
//! A packet's inputs lead to its record in the [`FlowCache`], which has a cell a table: the number of
//! the entry that was found. The cell of a table that no packet of this flow has come to yet is
//! open, and generated code looks up and fills it. Everything else happens as without a cache:
//! counters of tables and entries, direct meters, selectors, actions. A write to a table or to an
//! action profile starts a new generation, of which every record is open.
//!
//! The cache is exact in the inputs (microflows), or, with wildcards (megaflows), in those of
//! their bits that some entry looks at: the indexes keep which those are, so that flows that no
//! entry tells apart share a record.
//!
//! More flows than a near cache can hold are worth a cache only if packets do not wait for their
//! records: where frames wait together, each is parsed some ahead of its turn and its record is prefetched
//! then ([`Capacity::Prefetched`], `engine/ingress.rs`).

mod cache;
mod dependence;
mod plan;

pub(crate) use cache::{Capacity, FlowCache, OPEN};
pub(crate) use plan::{FlowPlan, Input};
