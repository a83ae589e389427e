//! Tests that each structure is the same after it was written and read again.
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, TableCode};
use bmv2_thrift::message::{
    ActionEntry, Crc16, Crc32, Entry, Group, Life, MatchParam, Member, MeterRate, MirroringSession,
    Options, PortInfo, Structure, SwitchInfo,
};
use bmv2_thrift::wire::read;
use bmv2_thrift::wire::write::Writer;

fn again<T: Structure + PartialEq + std::fmt::Debug>(value: &T) {
    let mut writer = Writer::default();
    value.write(&mut writer);
    let bytes = writer.into_bytes();
    let fields = read::structure(&bytes).unwrap();
    assert_eq!(T::read(Args::new(&fields)).unwrap(), *value);
}

#[test]
fn what_is_written_is_read_again() {
    let key = vec![
        MatchParam::Exact(vec![1]),
        MatchParam::Lpm(vec![10, 0, 0, 0], 8),
        MatchParam::Ternary(vec![1, 2], vec![0xff, 0]),
        MatchParam::Valid(true),
        MatchParam::Range(vec![3], vec![4]),
    ];
    let life = Life {
        timeout_ms: 10,
        since_hit_ms: 3,
    };
    let actions = [
        ActionEntry::Empty,
        ActionEntry::Call("forward".into(), vec![vec![], vec![7]]),
        ActionEntry::Member(7),
        ActionEntry::Group(-1),
    ];
    for (handle, action) in (0..).zip(actions) {
        again(&Entry {
            key: key.clone(),
            options: Options { priority: Some(-1) },
            handle,
            action,
            life: (handle == 0).then_some(life),
        });
    }
    again(&Group {
        handle: 3,
        members: vec![1, 2],
    });
    again(&MeterRate {
        units_per_micros: 0.25,
        burst: 9,
    });
    again(&PortInfo {
        port: 511,
        interface: "veth0".into(),
        is_up: true,
        extra: vec![("in".into(), "1".into())],
    });
    again(&SwitchInfo {
        sockets: [None, Some("ipc:///x".into()), None],
        ..SwitchInfo::default()
    });
    again(&Crc16 {
        numbers: [0x1021, -1, 0],
        reflected: [true, false],
    });
    again(&Crc32 {
        numbers: [0x04c1_1db7, -1, 0],
        reflected: [true, true],
    });
    again(&Member {
        handle: 2,
        action: "drop".into(),
        args: Vec::new(),
    });
    again(&MirroringSession {
        port: None,
        group: Some(5),
    });
}

#[test]
fn a_match_that_is_left_out_is_known_as_such() {
    let mut writer = Writer::default();
    MatchParam::None(2).write(&mut writer);
    let fields = read::structure(writer.written()).unwrap();
    assert_eq!(
        MatchParam::read(Args::new(&fields)),
        Ok(MatchParam::None(2))
    );
}

#[test]
fn a_reason_stands_behind_a_code() {
    let exception = Exception::new(TableCode::DuplicateEntry, "it is there already");
    let mut writer = Writer::default();
    exception.write(&mut writer);
    writer.stop();
    let fields = read::structure(writer.written()).unwrap();
    let inner = Args::new(&fields).fields(1).unwrap().unwrap();
    assert_eq!(Exception::read(inner), Ok(exception));
    assert_eq!(TableCode::name(17), Some("DUPLICATE_ENTRY"));
    assert_eq!(TableCode::name(99), None);
}
