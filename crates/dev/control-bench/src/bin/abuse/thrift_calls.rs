//! Sends valid, mutated and random Thrift calls. Thrift has no primary, so the switch carries out all writes. The calls
//! therefore avoid the objects that the guard checks.

use std::sync::Arc;
use std::time::Duration;

use bmv2_thrift::wire::Type;
use bmv2_thrift::wire::write::Writer;
use control_bench::mutate::mutated_bytes;
use control_bench::thrift::{call, entry};
use fastrand::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{PLACE, Shared};

const CALLS_MAX: usize = 20;
/// The announced length of a string, 2 GiB.
const LONG: i32 = i32::MAX;

/// Sends calls until the end.
pub(crate) async fn send(shared: Arc<Shared>, mut rng: Rng) {
    while !shared.is_over() {
        let Ok(mut stream) = TcpStream::connect(PLACE.thrift()).await else {
            shared.count("Thrift turned away");
            continue;
        };
        for _ in 0..rng.usize(1..CALLS_MAX) {
            let mut bytes = one(&mut rng);
            for _ in 0..rng.usize(..3) {
                bytes = mutated_bytes(&mut rng, bytes);
            }
            if stream.write_all(&bytes).await.is_err() {
                break;
            }
            let mut answer = vec![0; 64 * 1024];
            let limit = match rng.u8(..3) {
                0 => Duration::from_micros(rng.u64(..2_000)),
                _ => Duration::from_millis(100),
            };
            match tokio::time::timeout(limit, stream.read(&mut answer)).await {
                Ok(Ok(1..)) => shared.count("Thrift calls answered"),
                Ok(_) => {
                    shared.count("Thrift connections ended");
                    break;
                }
                // The switch may wait for more bytes.
                Err(_) => {
                    shared.count("Thrift calls given up");
                    break;
                }
            }
        }
        if rng.bool() {
            let _ = stream.set_zero_linger();
        }
    }
}

fn one(rng: &mut Rng) -> Vec<u8> {
    let mut writer = Writer::default();
    let name = match rng.u8(..12) {
        0 => {
            let key = [0, 0, 0, 0, 0, rng.u8(1..6)];
            writer.encoded(&entry("I.ordered", &key, "I.mark", &[rng.u8(..)]));
            "standard:bm_mt_add_entry"
        }
        1 => {
            let key = [0, 0, 0, 0, 0, rng.u8(1..6)];
            writer.encoded(&entry("I.limited", &key, "NoAction", &[]));
            "standard:bm_mt_add_entry"
        }
        2 => {
            writer.field(1, Type::I32).i32(0);
            writer.field(2, Type::Bytes).bytes(b"I.limited");
            "standard:bm_mt_get_entries"
        }
        3 => {
            writer.field(1, Type::I32).i32(rng.i32(..));
            writer.field(2, Type::Struct);
            writer.field(1, Type::I32).i32(rng.i32(-1..600));
            writer.stop();
            "simple_switch:mirroring_session_add"
        }
        4 => {
            writer.field(1, Type::I32).i32(0);
            writer
                .field(2, Type::I16)
                .encoded(&rng.i16(..).to_be_bytes());
            "simple_pre_lag:bm_mc_mgrp_create"
        }
        5 => {
            writer.field(1, Type::I32).i32(0);
            writer
                .field(2, Type::I16)
                .encoded(&rng.i16(..).to_be_bytes());
            writer.field(3, Type::Bytes).bytes(b"0110");
            writer.field(4, Type::Bytes).bytes(b"");
            "simple_pre_lag:bm_mc_node_create"
        }
        6 => "standard:bm_serialize_state",
        7 => "standard:bm_dev_mgr_show_ports",
        8 => {
            writer.field(1, Type::I32).i32(0);
            writer.field(2, Type::Bytes).i32(LONG);
            "standard:bm_mt_clear_entries"
        }
        9 => "standard:bm_reset_state",
        10 => {
            writer.field(1, Type::I32).i32(rng.i32(-1..3));
            writer.field(2, Type::I64).i64(rng.i64(1_000_000..));
            "simple_switch:set_egress_queue_rate"
        }
        _ => {
            writer.field(1, Type::Bytes).bytes(b"{\"program\": 5}");
            "standard:bm_load_new_config"
        }
    };
    call(name, rng.i32(..), &writer.into_bytes())
}
