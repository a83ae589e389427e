//! Tests of the P4Runtime specification's section "MeterEntry & DirectMeterEntry": the rates of each type of meter, and
//! the counts by color, also as parts of table entries.

use p4runtime_proto::p4::config::v1::meter_spec::Type as MeterType;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::table_action::Type as Runs;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{
    CounterData, DirectMeterEntry, Index, MeterConfig, MeterCounterData, MeterEntry, TableEntry,
};
use tonic::Code::{InvalidArgument, NotFound, OutOfRange};

use crate::every_entity::{call, entry, frame, id, kinds, p4info, pass, start, start_with};
use crate::harness::Harness;

const GREEN: u8 = 0;
const YELLOW: u8 = 1;
const RED: u8 = 2;

/// With these rates, the first two packets are green, the next two are yellow, and all others are red for a long time.
const RATES: MeterConfig = MeterConfig {
    cir: 1,
    cburst: 2,
    pir: 1,
    pburst: 4,
    eburst: 0,
};

fn meter(index: Option<i64>, config: Option<MeterConfig>) -> MeterEntry {
    MeterEntry {
        meter_id: id("rates"),
        index: index.map(|index| Index { index }),
        config,
        counter_data: None,
    }
}

fn of(entry: MeterEntry) -> Kind {
    Kind::MeterEntry(entry)
}

fn count(packets: i64, byte_count: i64) -> Option<CounterData> {
    Some(CounterData {
        packet_count: packets,
        byte_count,
    })
}

/// Sends frames into a port and returns their colors. The port's cell of the meter array `rates` meters the frames.
fn colors(harness: &Harness, port: u16, n_frames: usize) -> Vec<u8> {
    let metered = frame(7, 0, 0x800, kinds::METERED);
    let colors = (0..n_frames).map(|_| pass(harness, port, &metered).color);
    colors.collect()
}

fn limited(config: Option<MeterConfig>) -> TableEntry {
    TableEntry {
        meter_config: config,
        ..entry("limited", 9, Runs::Action(call("metered", &[])))
    }
}

fn direct(of: TableEntry, config: Option<MeterConfig>) -> DirectMeterEntry {
    let table_entry = TableEntry {
        table_id: of.table_id,
        r#match: of.r#match,
        ..TableEntry::default()
    };
    DirectMeterEntry {
        table_entry: Some(table_entry),
        config,
        counter_data: None,
    }
}

/// Sends a frame that hits the entry of `limited`, and returns the frame's color.
fn direct_color(harness: &Harness) -> u8 {
    pass(harness, 0, &frame(7, 9, 0x800, kinds::PLAIN)).color
}

// spec: meter.indexed
#[tokio::test]
async fn a_meter_s_cell_is_written_read_and_marks_packets() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    assert_eq!(colors(&harness, 2, 6), [GREEN; 6]);
    let cell = of(meter(Some(2), Some(RATES)));
    primary.modify(cell.clone()).await;
    let marked = colors(&harness, 2, 6);
    assert_eq!(marked, [GREEN, GREEN, YELLOW, YELLOW, RED, RED]);
    assert_eq!(colors(&harness, 1, 3), [GREEN; 3]);
    assert_eq!(primary.found(of(meter(Some(2), None))).await, [cell]);
    let all = primary.found(of(meter(None, None))).await;
    assert_eq!(all.len(), 8);
    assert_eq!(all[1], of(meter(Some(1), None)));
    let every = primary.found(of(MeterEntry::default())).await;
    assert_eq!(every, all);

    // An update without rates makes the cell green again; an update without an index sets all cells.
    let green = of(meter(Some(2), None));
    primary.modify(green).await;
    assert_eq!(colors(&harness, 2, 6), [GREEN; 6]);
    let everywhere = of(meter(None, Some(RATES)));
    primary.modify(everywhere).await;
    for port in 0..3 {
        assert_eq!(colors(&harness, port, 5)[4], RED);
    }
}

// spec: meter.errors
#[tokio::test]
async fn wrong_meters_are_refused() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let with = |change: fn(&mut MeterConfig)| {
        let mut config = RATES;
        change(&mut config);
        of(meter(Some(0), Some(config)))
    };
    let counts = |green| {
        let mut entry = meter(Some(0), None);
        entry.counter_data = Some(MeterCounterData {
            green,
            ..MeterCounterData::default()
        });
        of(entry)
    };
    primary
        .expect_refused([
            (Insert, of(meter(Some(0), Some(RATES))), InvalidArgument),
            (Delete, of(meter(Some(0), None)), InvalidArgument),
            (Modify, of(meter(Some(-1), None)), InvalidArgument),
            (Modify, of(meter(Some(8), None)), OutOfRange),
            (Modify, with(|config| config.cir = -1), InvalidArgument),
            (Modify, with(|config| config.pir = 0), InvalidArgument),
            (Modify, with(|config| config.eburst = 1), InvalidArgument),
            (Modify, counts(count(1, 0)), InvalidArgument),
            (Modify, of(MeterEntry::default()), InvalidArgument),
        ])
        .await;
    let refused = primary.read_error(of(meter(Some(8), None))).await;
    assert_eq!(refused, OutOfRange);
    let every_at = MeterEntry {
        meter_id: 0,
        ..meter(Some(0), None)
    };
    assert_eq!(primary.read_error(of(every_at)).await, InvalidArgument);
}

/// Starts a server whose program has only meters of this type.
async fn start_with_meters_of(kind: MeterType) -> Harness {
    let mut p4info = p4info();
    for meter in &mut p4info.meters {
        meter.spec.as_mut().unwrap().r#type = kind as i32;
    }
    for meter in &mut p4info.direct_meters {
        meter.spec.as_mut().unwrap().r#type = kind as i32;
    }
    start_with(p4info).await
}

// spec: meter.single-rate-three-color
#[tokio::test]
async fn a_meter_of_one_rate_and_three_colours_has_an_excess_burst() {
    let harness = start_with_meters_of(MeterType::SingleRateThreeColor).await;
    let mut primary = harness.primary().await;
    let config = MeterConfig {
        pburst: RATES.cburst,
        eburst: 1,
        ..RATES
    };
    let cell = of(meter(Some(1), Some(config)));
    primary.modify(cell.clone()).await;
    assert_eq!(colors(&harness, 1, 5), [GREEN, GREEN, YELLOW, RED, RED]);
    assert_eq!(primary.found(of(meter(Some(1), None))).await, [cell]);
    let two_rates = of(meter(Some(1), Some(RATES)));
    assert_eq!(primary.refused(Modify, two_rates).await, InvalidArgument);
}

// spec: meter.single-rate-two-color
#[tokio::test]
async fn a_meter_of_one_rate_and_two_colours_is_never_yellow() {
    let harness = start_with_meters_of(MeterType::SingleRateTwoColor).await;
    let mut primary = harness.primary().await;
    let config = MeterConfig {
        pburst: RATES.cburst,
        ..RATES
    };
    let cell = of(meter(Some(1), Some(config)));
    primary.modify(cell).await;
    assert_eq!(colors(&harness, 1, 4), [GREEN, GREEN, RED, RED]);
    let excess = MeterConfig {
        eburst: 1,
        ..config
    };
    let refused = primary
        .refused(Modify, of(meter(Some(1), Some(excess))))
        .await;
    assert_eq!(refused, InvalidArgument);
}

// spec: meter.counter-data
#[tokio::test]
async fn what_a_meter_has_marked_is_counted_by_colour_and_reset() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let cell = meter(Some(1), Some(RATES));
    primary.modify(of(cell)).await;
    colors(&harness, 1, 5);
    let asked = MeterEntry {
        counter_data: Some(MeterCounterData::default()),
        ..meter(Some(1), None)
    };
    let length = i64::try_from(frame(7, 0, 0x800, 0).len()).unwrap();
    let counted = MeterEntry {
        counter_data: Some(MeterCounterData {
            green: count(2, 2 * length),
            yellow: count(2, 2 * length),
            red: count(1, length),
        }),
        ..cell
    };
    let read = primary.found(of(asked)).await;
    assert_eq!(read, [of(counted)]);
    // A write of rates alone keeps the counts; zeros reset them.
    primary.modify(of(cell)).await;
    colors(&harness, 1, 1);
    let reset = MeterEntry {
        counter_data: Some(MeterCounterData::default()),
        ..cell
    };
    let Kind::MeterEntry(read) = &primary.found(of(asked)).await[0] else {
        panic!("expected a meter")
    };
    let green = read.counter_data.unwrap().green;
    assert_eq!(green, count(3, 3 * length));
    primary.modify(of(reset)).await;
    let zero = MeterEntry {
        counter_data: Some(MeterCounterData {
            green: count(0, 0),
            yellow: count(0, 0),
            red: count(0, 0),
        }),
        ..cell
    };
    assert_eq!(primary.found(of(asked)).await, [of(zero)]);
}

// spec: meter.direct
#[tokio::test]
async fn a_direct_meter_is_written_and_read_by_itself() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entry = limited(None);
    let missing = Kind::DirectMeterEntry(direct(entry.clone(), None));
    assert_eq!(primary.refused(Modify, missing.clone()).await, NotFound);
    assert_eq!(primary.read_error(missing).await, NotFound);
    primary.insert(Kind::TableEntry(entry.clone())).await;
    assert_eq!(direct_color(&harness), GREEN);
    // The direct meter measures bytes, and a frame has more bytes than each burst of `RATES`.
    let written = direct(entry.clone(), Some(RATES));
    let written_of = Kind::DirectMeterEntry(written.clone());
    primary.modify(written_of.clone()).await;
    assert_eq!(direct_color(&harness), RED);
    let found = primary
        .found(Kind::DirectMeterEntry(direct(entry.clone(), None)))
        .await;
    assert_eq!(found, std::slice::from_ref(&written_of));
    let found = primary
        .found(Kind::DirectMeterEntry(DirectMeterEntry::default()))
        .await;
    assert_eq!(found, std::slice::from_ref(&written_of));
    let asked = DirectMeterEntry {
        counter_data: Some(MeterCounterData::default()),
        ..direct(entry.clone(), None)
    };
    let read = primary.found(Kind::DirectMeterEntry(asked)).await;
    let Kind::DirectMeterEntry(read) = &read[0] else {
        panic!("expected a direct meter")
    };
    let counted = read.counter_data.unwrap();
    let packets = [counted.green, counted.yellow, counted.red];
    assert_eq!(packets.map(|count| count.unwrap().packet_count), [1, 0, 1]);
    for kind in [Insert, Delete] {
        let refused = primary.refused(kind, written_of.clone()).await;
        assert_eq!(refused, InvalidArgument);
    }
    let green = Kind::DirectMeterEntry(direct(entry, None));
    primary.modify(green).await;
    assert_eq!(direct_color(&harness), GREEN);
    let unmetered = direct(
        crate::every_entity::entry("one", 7, Runs::ActionProfileMemberId(1)),
        None,
    );
    let refused = primary.read_error(Kind::DirectMeterEntry(unmetered)).await;
    assert_eq!(refused, InvalidArgument);
}

// spec: table-entry.direct-meter
#[tokio::test]
async fn an_entry_has_its_meter_and_what_it_has_counted() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let insert = limited(Some(RATES));
    primary.insert(Kind::TableEntry(insert.clone())).await;
    assert_eq!(direct_color(&harness), RED);
    let request = |with_config: bool, with_counts: bool| {
        Kind::TableEntry(TableEntry {
            table_id: id("limited"),
            meter_config: with_config.then(MeterConfig::default),
            meter_counter_data: with_counts.then(MeterCounterData::default),
            ..TableEntry::default()
        })
    };
    let read = primary.found(request(true, false)).await;
    assert_eq!(read, [Kind::TableEntry(insert.clone())]);
    let read = primary.found(request(false, false)).await;
    assert_eq!(read, [Kind::TableEntry(limited(None))]);
    let counts = |packets, bytes| {
        let (green, yellow) = (count(0, 0), count(0, 0));
        let red = count(packets, bytes);
        Kind::TableEntry(TableEntry {
            meter_counter_data: Some(MeterCounterData { green, yellow, red }),
            ..limited(None)
        })
    };
    let read = primary.found(request(false, true)).await;
    assert_eq!(read, [counts(1, 64)]);
    // A Modify without rates makes the meter green; a Modify whose counts are zeros resets the counts.
    let reset = TableEntry {
        meter_counter_data: Some(MeterCounterData::default()),
        ..limited(Some(RATES))
    };
    primary.modify(Kind::TableEntry(reset)).await;
    let read = primary.found(request(false, true)).await;
    assert_eq!(read, [counts(0, 0)]);
    primary.modify(Kind::TableEntry(limited(None))).await;
    assert_eq!(direct_color(&harness), GREEN);
    let read = primary.found(request(true, false)).await;
    assert_eq!(read, [Kind::TableEntry(limited(None))]);
    let wrong = TableEntry {
        meter_counter_data: Some(MeterCounterData {
            red: count(1, 1),
            ..MeterCounterData::default()
        }),
        ..limited(None)
    };
    for kind in [Insert, Modify] {
        let refused = primary.refused(kind, Kind::TableEntry(wrong.clone())).await;
        assert_eq!(refused, InvalidArgument);
    }
}
