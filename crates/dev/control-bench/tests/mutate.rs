//! A mutated message usually remains a valid protobuf message.

use control_bench::mutate::{mutated_fields, parse, write};
use fastrand::Rng;

#[test]
fn what_is_not_changed_is_written_as_it_was() {
    // The fields are a varint, a message that contains a varint, eight bytes, and four bytes.
    let message = [
        8, 0x96, 1, 0x12, 2, 8, 1, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4,
    ];
    assert_eq!(write(&parse(&message).expect("a message")), message);
}

#[test]
fn most_changes_of_fields_leave_a_message() {
    let message = [8, 0x96, 1, 0x12, 4, 8, 1, 0x10, 2, 0x1a, 1, 65];
    let mut rng = Rng::with_seed(1);
    let changed = (0..1_000).map(|_| mutated_fields(&mut rng, &message, 0));
    let (mut n_whole, mut n_others) = (0, 0);
    for changed in changed {
        n_whole += usize::from(parse(&changed).is_some());
        n_others += usize::from(changed != message);
    }
    assert!(n_whole > 800 && n_others > 800, "{n_whole}, {n_others}");
}
