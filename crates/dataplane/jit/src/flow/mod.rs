//! The flow cache remembers which entries the tables of a control found for earlier packets.
//!
//! When a program is compiled, [`plan`] traces what each table's key depends on, back to the fields and header
//! validities that a packet has when it comes to the control. A table is not cached if its key depends on anything else
//! (a register, a meter, a random number, a selector's choice). So two packets with the same values of the plan's
//! inputs find the same entries in every cached table that they come to, until a table changes.
//!
//! A packet finds its record in the [`FlowCache`] by the values of its inputs. A record has one cell per table. The
//! cell holds the number of the entry that an earlier packet of the flow found. The cell of a table that no packet of
//! this flow has come to yet is open; generated code then looks up the table and fills the cell. Everything else
//! happens as without a cache: counters of tables and entries, direct meters, selectors, actions. A write to a table or
//! to an action profile starts a new generation of the cache (not of the program): all existing records become invalid.
//!
//! The cache compares all bits of the inputs (microflows) or, with wildcards (megaflows), only the bits that some entry
//! looks at. The tables' indexes record these bits. Flows that no entry tells apart therefore share a record.
//!
//! A cache with more records than the second-level cache holds pays only if packets do not wait for their records. So
//! the engine parses some of the waiting frames ahead and prefetches their records ([`Capacity::Prefetched`],
//! `engine/ingress.rs`).

mod cache;
mod dependence;
mod plan;

pub(crate) use cache::{Capacity, FlowCache, OPEN};
pub(crate) use plan::{FlowPlan, Input};
