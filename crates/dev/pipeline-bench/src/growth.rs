//! Measures how the cost of a packet grows with table entries, groups, viewers and packet size. While one size grows,
//! all other sizes keep the default values of the command `parts`, except the sizes that the constants below set.

use crate::{
    FRAME_BYTES, Task, VIDEO_FRAME_BYTES,
    variant::Variant,
    workload::{Pipeline, Workload},
};

/// Number of flows while another size grows. The data of this many flows do not fit into a first-level cache.
const FLOWS: usize = 10_000;
/// Number of viewers of each group while the number of groups grows.
const GROUP_VIEWERS: usize = 8;

/// A series: the name of the size that grows, the pipeline, and the values of the size.
type Series = (&'static str, Pipeline, &'static [usize]);

const SERIES: [Series; 9] = [
    ("entries", Pipeline::L2, &[10, 100, 1_000, 10_000, 16_000]),
    ("entries", Pipeline::L3, &[10, 100, 1_000, 10_000, 60_000]),
    ("entries", Pipeline::L2l3Acl, &[10, 100, 1_000]),
    ("groups", Pipeline::Sfu, &[1, 10, 100, 1_000, 8_000]),
    ("groups", Pipeline::SfuRecirculation, &[1, 10, 100, 1_000]),
    ("viewers", Pipeline::Sfu, &[1, 4, 16, 64, 256, 1_024, 4_096]),
    (
        "viewers",
        Pipeline::SfuRecirculation,
        &[1, 4, 16, 64, 256, 1_024, 4_096],
    ),
    (
        "packet_size_bytes",
        Pipeline::L3,
        &[64, 128, 256, 512, 1_024, 1_500],
    ),
    (
        "packet_size_bytes",
        Pipeline::Sfu,
        &[64, 128, 256, 512, 1_024, 1_500],
    ),
];

/// Returns every point of every series. A quick run gets the first two points of each series.
pub fn tasks(is_quick: bool) -> Vec<Task> {
    let points = |(grows, pipeline, values): Series| {
        let n_values = if is_quick { 2 } else { values.len() };
        let values = values[..n_values].iter();
        values.map(move |value| task(grows, pipeline, *value))
    };
    SERIES.into_iter().flat_map(points).collect()
}

fn task(grows: &'static str, pipeline: Pipeline, value: usize) -> Task {
    let is_sfu = pipeline.is_sfu();
    let mut workload = Workload {
        pipeline,
        flows: if is_sfu { 1 } else { FLOWS },
        frame_bytes: if is_sfu {
            VIDEO_FRAME_BYTES
        } else {
            FRAME_BYTES
        },
        entries: pipeline.default_entries(),
        groups: 1,
        viewers: 64,
    };
    match grows {
        "entries" => workload.entries = value,
        "groups" => {
            (workload.groups, workload.flows) = (value, value);
            workload.viewers = GROUP_VIEWERS;
        }
        "viewers" => workload.viewers = value,
        _ => workload.frame_bytes = value,
    }
    Task {
        workload,
        growth: Some((grows, value)),
        variants: Variant::extremes(),
    }
}
