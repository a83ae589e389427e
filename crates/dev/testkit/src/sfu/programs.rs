//! Makes P4Info of the two SFU programs, with the objects that a controller uses. A test chooses the sizes.

use p4runtime_proto::p4::config::v1::controller_packet_metadata::Metadata;
use p4runtime_proto::p4::config::v1::{
    Action, ActionRef, ControllerPacketMetadata, Counter, CounterSpec, DirectCounter, MatchField,
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4DataTypeSpec, P4Info, PkgInfo, Preamble, Register,
    Table, action, counter_spec, match_field, p4_bitstring_like_type_spec, p4_data_type_spec,
};

const TABLE: u32 = 0x0200_0000;
const ACTION: u32 = 0x0100_0000;
const REGISTER: u32 = 0x1600_0000;
const COUNTER: u32 = 0x1200_0000;
const DIRECT_COUNTER: u32 = 0x1300_0000;
const HEADER: u32 = 0x0400_0000;

/// Makes P4Info like that of `p4/sfu_recirculation.p4`, with registers for `slots` viewers and `copies` copy counters.
pub fn recirculation(slots: i32, copies: i64) -> P4Info {
    let mut p4info = common("sfu_recirculation");
    add_table(
        &mut p4info,
        "presenters",
        &[("src_addr", 32)],
        "set_group",
        &[16, 48],
        131_072,
    );
    add_direct_counter(&mut p4info, "presenter_packets");
    add_verdicts(&mut p4info);
    let registers = [
        ("groups", 65_536, 64),
        ("viewer_ips", slots, 32),
        ("viewer_macs", slots, 48),
        ("viewer_ids", slots, 32),
    ];
    for (idx, (name, size, bitwidth)) in registers.into_iter().enumerate() {
        p4info.registers.push(Register {
            preamble: preamble(REGISTER + 1 + idx as u32, name),
            type_spec: bits(bitwidth),
            size,
            ..Register::default()
        });
    }
    p4info.counters.push(Counter {
        preamble: preamble(COUNTER + 1, "viewer_copies"),
        spec: both_units(),
        size: copies,
        ..Counter::default()
    });
    p4info
}

/// Makes P4Info like that of `p4/sfu.p4`, with room for `viewers` viewers.
pub fn replication(viewers: i64) -> P4Info {
    let mut p4info = common("sfu");
    add_table(
        &mut p4info,
        "port_addresses",
        &[("egress_port", 9)],
        "send_from",
        &[48, 32],
        512,
    );
    let stream = [("src_addr", 32), ("udp_dst_port", 16)];
    add_table(
        &mut p4info,
        "streams",
        &stream,
        "set_group",
        &[16, 48],
        131_072,
    );
    add_direct_counter(&mut p4info, "stream_packets");
    add_verdicts(&mut p4info);
    add_table(
        &mut p4info,
        "viewers",
        &[("group", 16), ("rid", 16)],
        "send_to",
        &[48, 32, 16],
        viewers,
    );
    add_direct_counter(&mut p4info, "viewer_packets");
    p4info
}

/// Makes the P4Info of a program that is not an SFU.
pub fn other() -> P4Info {
    common("other")
}

fn common(name: &str) -> P4Info {
    let mut p4info = P4Info {
        pkg_info: Some(PkgInfo {
            name: name.to_owned(),
            arch: "v1model".to_owned(),
            ..PkgInfo::default()
        }),
        ..P4Info::default()
    };
    let own = [("ingress_port", 9), ("address", 32)];
    add_table(
        &mut p4info,
        "own_addresses",
        &own,
        "set_own_mac",
        &[48],
        1024,
    );
    for (idx, (header, port)) in [("packet_in", "ingress_port"), ("packet_out", "egress_port")]
        .into_iter()
        .enumerate()
    {
        let field = |id, name: &str, bitwidth| Metadata {
            id,
            name: name.to_owned(),
            bitwidth,
            ..Metadata::default()
        };
        p4info
            .controller_packet_metadata
            .push(ControllerPacketMetadata {
                preamble: Some(Preamble {
                    name: header.to_owned(),
                    ..preamble(HEADER + 1 + idx as u32, header).unwrap_or_default()
                }),
                metadata: vec![field(1, port, 9), field(2, "_pad", 7)],
            });
    }
    p4info
}

fn add_verdicts(p4info: &mut P4Info) {
    add_table(p4info, "verdicts", &[("verdict", 8)], "serve", &[], 18);
    let id = ACTION + 1 + p4info.actions.len() as u32;
    p4info.actions.push(Action {
        preamble: preamble(id, "drop_unknown_sender"),
        ..Action::default()
    });
    add_direct_counter(p4info, "verdict_packets");
    if let Some(table) = p4info.tables.last_mut() {
        table.is_const_table = true;
        table.action_refs.push(ActionRef {
            id,
            ..ActionRef::default()
        });
    }
}

fn add_table(
    p4info: &mut P4Info,
    name: &str,
    fields: &[(&str, i32)],
    action: &str,
    params: &[i32],
    size: i64,
) {
    let action_id = ACTION + 1 + p4info.actions.len() as u32;
    let params = params
        .iter()
        .enumerate()
        .map(|(idx, bitwidth)| action::Param {
            id: idx as u32 + 1,
            name: format!("p{idx}"),
            bitwidth: *bitwidth,
            ..action::Param::default()
        });
    p4info.actions.push(Action {
        preamble: preamble(action_id, action),
        params: params.collect(),
    });
    let fields = fields
        .iter()
        .enumerate()
        .map(|(idx, (name, bitwidth))| MatchField {
            id: idx as u32 + 1,
            name: (*name).to_owned(),
            bitwidth: *bitwidth,
            r#match: Some(match_field::Match::MatchType(
                match_field::MatchType::Exact.into(),
            )),
            ..MatchField::default()
        });
    p4info.tables.push(Table {
        preamble: preamble(TABLE + 1 + p4info.tables.len() as u32, name),
        match_fields: fields.collect(),
        action_refs: vec![ActionRef {
            id: action_id,
            ..ActionRef::default()
        }],
        size,
        ..Table::default()
    });
}

/// Adds a direct counter to the last table.
fn add_direct_counter(p4info: &mut P4Info, name: &str) {
    let id = DIRECT_COUNTER + 1 + p4info.direct_counters.len() as u32;
    let Some(table) = p4info.tables.last_mut() else {
        return;
    };
    table.direct_resource_ids.push(id);
    p4info.direct_counters.push(DirectCounter {
        preamble: preamble(id, name),
        spec: both_units(),
        direct_table_id: table.preamble.as_ref().map_or(0, |p| p.id),
    });
}

fn both_units() -> Option<CounterSpec> {
    Some(CounterSpec {
        unit: counter_spec::Unit::Both.into(),
    })
}

fn bits(bitwidth: i32) -> Option<P4DataTypeSpec> {
    let spec = p4_bitstring_like_type_spec::TypeSpec::Bit(P4BitTypeSpec { bitwidth });
    let spec = P4BitstringLikeTypeSpec {
        type_spec: Some(spec),
        ..Default::default()
    };
    Some(P4DataTypeSpec {
        type_spec: Some(p4_data_type_spec::TypeSpec::Bitstring(spec)),
    })
}

fn preamble(id: u32, alias: &str) -> Option<Preamble> {
    Some(Preamble {
        id,
        name: format!("Sfu.{alias}"),
        alias: alias.to_owned(),
        ..Preamble::default()
    })
}
