//! The workload of the SFU programs, set up by the controller. All groups have the same number of viewers, all viewers
//! are behind one port, and each group has one presenter.

use std::net::Ipv4Addr;

use conference::{
    address::Mac,
    model::{Conference, GroupId, ModelError, OwnAddress, Presenter, Viewer},
};
use conformance::{
    controller,
    sfu::{SFU_IP, SFU_MAC, SFU_PORT, STREAM_PORT, SfuProgram},
};
use dataplane::{PortId, Switch};

use super::{Pipeline, Workload, mac};
use crate::frames::{Ipv4Frame, UDP};

const PRESENTERS: u32 = 0x0a02_0001;
const VIEWERS: u32 = 0x0a10_0001;

pub(super) fn set_up(switch: Switch, workload: &Workload) -> Result<Switch, String> {
    let program = match workload.pipeline {
        Pipeline::SfuRecirculation => SfuProgram::Recirculation,
        _ => SfuProgram::Replication,
    };
    controller::set_up(switch, program, |conference| {
        fill(conference, program, workload).map_err(|error| error.to_string())
    })
}

fn fill(
    conference: &mut Conference,
    program: SfuProgram,
    workload: &Workload,
) -> Result<(), ModelError> {
    let has_udp_ports = program == SfuProgram::Replication;
    conference.set_address(OwnAddress {
        port: SFU_PORT.0,
        ip: SFU_IP,
        mac: Mac(SFU_MAC),
    })?;
    for group in 0..workload.groups {
        let id = GroupId(1 + group as u16);
        let presenter = Presenter {
            ip: Ipv4Addr::from(PRESENTERS + group as u32),
            mac: None,
            udp_port: has_udp_ports.then_some(STREAM_PORT),
        };
        conference.add_group(id, presenter)?;
        for n in 0..workload.viewers {
            let number = group * workload.viewers + n;
            let viewer = Viewer {
                ip: Ipv4Addr::from(VIEWERS + number as u32),
                mac: Mac(mac(3, number)),
                udp_port: has_udp_ports.then_some(6000),
                looked_up: false,
                port: None,
            };
            conference.add_viewer(id, viewer)?;
        }
    }
    Ok(())
}

pub(super) fn frame(group: usize) -> (PortId, Ipv4Frame) {
    let frame = Ipv4Frame {
        macs: [SFU_MAC, mac(4, group)],
        addresses: [PRESENTERS + group as u32, SFU_IP.into()],
        protocol: UDP,
        ports: [40_000, STREAM_PORT],
    };
    (SFU_PORT, frame)
}
