//! Tests of the P4Runtime specification's sections "Error Reporting Messages", "Write RPC" and "Read RPC": order of
//! checks, batches, details.

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::table_entry::IdleTimeout;
use p4runtime_proto::p4::v1::update::Type::{self, Insert, Modify};
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CounterEntry, DigestEntry, DirectCounterEntry,
    DirectMeterEntry, Entity, ExternEntry, MeterConfig, MeterEntry, ReadRequest, RegisterEntry,
    TableEntry, Update, ValueSetEntry, WriteRequest,
};
use p4runtime_server::WriteError;
use testkit::text::assert_starts;
use tonic::Code::{
    self, AlreadyExists, InvalidArgument, NotFound, OutOfRange, PermissionDenied, Unknown,
};

use crate::harness::{DEVICE_ID, Harness, details, ids, in_time, read, update};
use crate::registers::{cell, read_cell};
use crate::table_entries::{all, forward_entry};

// spec: errors.per-update, atomicity.continue
#[tokio::test]
async fn every_update_of_a_batch_is_attempted_and_has_its_own_error() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let status = primary
        .write(vec![
            update(Modify, cell(1, &[1])),
            update(Modify, cell(131_072, &[1])),
            update(Insert, forward_entry(0xa, 1)),
            update(Insert, forward_entry(0xa, 1)),
            update(Modify, cell(2, &[2])),
        ])
        .await
        .unwrap_err();
    let errors = details(&status);
    let codes: Vec<Code> = errors
        .iter()
        .map(|e| Code::from(e.canonical_code))
        .collect();
    let expected = [Code::Ok, OutOfRange, Code::Ok, AlreadyExists, Code::Ok];
    assert_eq!(codes, expected);
    assert!(
        errors
            .iter()
            .all(|e| e.message.is_empty() == (e.canonical_code == 0))
    );
    assert!(errors[1].message.contains("ingress.slots"), "{errors:?}");
    assert!(
        status
            .message()
            .starts_with("2 of 5 updates failed, first update 2: register"),
        "{}",
        status.message()
    );
    assert_eq!(read_cell(&mut primary, 1).await, [1]);
    assert_eq!(read_cell(&mut primary, 2).await, [2]);
}

// spec: write.order
#[tokio::test]
async fn requests_are_checked_in_the_specifications_order() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let request = WriteRequest {
        device_id: DEVICE_ID,
        election_id: primary.election_id,
        ..Default::default()
    };
    for (request, code) in [
        (
            WriteRequest {
                device_id: 8,
                election_id: None,
                ..request.clone()
            },
            NotFound,
        ),
        (
            WriteRequest {
                role: "r".into(),
                election_id: None,
                ..request.clone()
            },
            NotFound,
        ),
        (
            WriteRequest {
                election_id: None,
                ..request.clone()
            },
            PermissionDenied,
        ),
        (
            WriteRequest {
                atomicity: 3,
                ..request.clone()
            },
            InvalidArgument,
        ),
    ] {
        let refused = in_time(primary.client.write(request)).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?}");
        assert!(refused.details().is_empty(), "no update was attempted");
    }
    #[expect(deprecated, reason = "older controllers write it")]
    let numbered = WriteRequest {
        role_id: 3,
        ..request
    };
    let refused = in_time(primary.client.write(numbered)).await.unwrap_err();
    assert_eq!(refused.message(), "there is no role 3");
    let request = ReadRequest {
        device_id: 8,
        ..Default::default()
    };
    let refused = in_time(primary.client.read(request)).await.unwrap_err();
    assert_eq!(refused.code(), NotFound);
}

// spec: arbitration.only-primary
#[tokio::test]
async fn only_the_primary_writes_and_everybody_reads() {
    let harness = Harness::start().await;
    let mut primary = harness.controller(5).await.0;
    let (mut backup, _) = harness.controller(4).await;
    let refused = backup.write(vec![update(Modify, cell(1, &[1]))]).await;
    assert_eq!(refused.unwrap_err().code(), PermissionDenied);
    primary
        .write(vec![update(Modify, cell(1, &[2]))])
        .await
        .unwrap();
    assert_eq!(read_cell(&mut backup, 1).await, [2]);
    // A client without a stream can read, too.
    let found = read(&mut harness.client().await, vec![all(ids::VERDICTS)]).await;
    assert_eq!(found.unwrap().len(), 2);
}

// spec: extern-entry.programs
#[tokio::test]
async fn externs_of_programs_are_refused_by_name() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let entry = Kind::ExternEntry(ExternEntry {
        extern_type_id: 0x91,
        extern_id: 0x9100_0001,
        entry: None,
    });
    let (code, message) = primary.write_one(Insert, entry.clone()).await.unwrap_err();
    assert_eq!(code, NotFound);
    assert!(message.contains("0x91"), "{message}");
    assert_eq!(primary.read_error(entry).await, NotFound);
}

/// Clients that clear a switch request every kind of entity; the fixture's program has no entities of the kinds below.
// spec: read.wildcards-of-nothing
#[tokio::test]
async fn a_wildcard_over_what_the_program_does_not_have_finds_none() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    for kind in [
        Kind::MeterEntry(MeterEntry::default()),
        Kind::DirectMeterEntry(DirectMeterEntry::default()),
        Kind::ValueSetEntry(ValueSetEntry::default()),
        Kind::DigestEntry(DigestEntry::default()),
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::ActionProfileGroup(ActionProfileGroup::default()),
    ] {
        assert_eq!(primary.found(kind.clone()).await, [], "{kind:?}");
        let refused = primary.write_one(Modify, kind.clone()).await;
        assert_eq!(refused.unwrap_err().0, InvalidArgument, "{kind:?}");
    }
    let member = Kind::ActionProfileMember(ActionProfileMember {
        action_profile_id: 1,
        ..ActionProfileMember::default()
    });
    assert_eq!(primary.read_error(member).await, InvalidArgument);
}

#[tokio::test]
async fn what_of_an_entry_is_not_supported_is_refused_in_a_read() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let forward = |entry| {
        Kind::TableEntry(TableEntry {
            table_id: ids::FORWARD,
            ..entry
        })
    };
    for (entry, message) in [
        (
            TableEntry {
                meter_config: Some(MeterConfig::default()),
                ..Default::default()
            },
            "has no direct meter",
        ),
        (
            TableEntry {
                time_since_last_hit: Some(IdleTimeout::default()),
                ..Default::default()
            },
            "has no idle timeout",
        ),
        (
            TableEntry {
                idle_timeout_ns: 1,
                ..Default::default()
            },
            "has no idle timeout",
        ),
    ] {
        let status = primary.read(forward(entry)).await.unwrap_err();
        let [error] = &details(&status)[..] else {
            panic!("expected one error, found {status:?}");
        };
        assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
        assert!(error.message.contains(message), "{error:?}");
    }
}

// spec: read.wildcards
#[tokio::test]
async fn the_whole_state_is_read_by_naming_every_kind_that_is_served() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let everything = vec![
        all(0),
        Kind::CounterEntry(CounterEntry::default()),
        Kind::DirectCounterEntry(DirectCounterEntry::default()),
        Kind::RegisterEntry(RegisterEntry::default()),
    ];
    let found = read(&mut client, everything).await.unwrap();
    // The answer has the constant entries, their direct counters, and the cells of `copies`, `slots` and `flags`.
    assert_eq!(found.len(), 2 + 2 + 16 + 131_072 + 8);
}

// spec: write.unknown
#[tokio::test]
async fn updates_without_a_type_or_an_entity_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let refused = primary.refused(Type::Unspecified, cell(1, &[1])).await;
    assert_eq!(refused, InvalidArgument);
    for entity in [None, Some(Entity::default())] {
        let kind = Type::Insert as i32;
        let empty = Update {
            r#type: kind,
            entity,
        };
        let status = primary.write(vec![empty]).await.unwrap_err();
        assert_eq!(
            details(&status)[0].canonical_code,
            Code::InvalidArgument as i32
        );
    }
}

// spec: read.errors
#[tokio::test]
async fn a_read_returns_what_it_can_and_one_error_a_request() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let request = ReadRequest {
        device_id: DEVICE_ID,
        entities: [
            Some(all(ids::VERDICTS)),
            None,
            Some(all(12)),
            Some(all(ids::ROUTES)),
        ]
        .map(|entity| Entity { entity })
        .into(),
        ..Default::default()
    };
    let mut stream = in_time(client.read(request)).await.unwrap().into_inner();
    let first = in_time(stream.message()).await.unwrap().unwrap();
    assert_eq!(first.entities.len(), 2);
    let status = in_time(stream.message()).await.unwrap_err();
    let codes: Vec<i32> = details(&status).iter().map(|e| e.canonical_code).collect();
    let invalid = Code::InvalidArgument as i32;
    assert_eq!(codes, [0, invalid, invalid, 0]);
}

#[tokio::test]
async fn the_switch_itself_writes_without_an_election() {
    let harness = Harness::start().await;
    let mut request = WriteRequest {
        updates: vec![update(Insert, forward_entry(0xa, 1))],
        ..Default::default()
    };
    harness.server.write(&request).await.unwrap();
    let again = harness.server.write(&request).await.unwrap_err();
    let WriteError::Updates(results) = &again else {
        panic!("expected an error for each update, got {again:?}");
    };
    assert_eq!(results[0].as_ref().unwrap_err().code, AlreadyExists);
    assert_starts(&again.to_string(), "1 of 1 updates failed");
    request.updates.clear();
    let bare = Harness::without_pipeline(dataplane::SwitchConfig::default()).await;
    let refused = bare.server.write(&request).await.unwrap_err();
    let found = refused.to_string();
    assert_eq!(found, "No forwarding pipeline config set for this device");
}

/// Clients in C++, Python and Go accept 8 KiB of headers, and report RESOURCE_EXHAUSTED for more.
// spec: errors.metadata-size
#[tokio::test]
async fn the_errors_of_a_large_batch_are_never_more_than_a_client_takes() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    for n_updates in [2, 50, 100, 200, 10_000] {
        let cells = [-1].into_iter().chain(1..n_updates);
        let updates = cells.map(|index| update(Modify, cell(index, &[1])));
        let status = primary.write(updates.collect()).await.unwrap_err();
        assert_eq!(status.code(), Unknown);
        let first = format!("1 of {n_updates} updates failed, first update 1: register");
        assert!(status.message().starts_with(&first), "{status}");
        let headers = status.details().len().div_ceil(3) * 4 + status.message().len() * 3;
        assert!(headers < 8_000, "{headers} bytes for {n_updates}");
        match n_updates {
            2 | 50 | 100 => assert_eq!(details(&status).len(), n_updates as usize),
            _ => {
                assert!(status.details().is_empty());
                let advice = ". Send fewer updates at once to get the error of each";
                assert!(status.message().ends_with(advice), "{status}");
            }
        }
    }
}
