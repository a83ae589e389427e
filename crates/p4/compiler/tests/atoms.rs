//! Tests the optimiser's table of facts about fields, for example that a field holds a constant or a copy of another
//! field.

use p4_compiler::optimise::atoms::{Atom, Atoms};

#[test]
fn what_a_field_held_goes_with_its_copies() {
    let mut atoms = Atoms::default();
    atoms.insert(3, Atom::Constant(7));
    atoms.insert(100, Atom::Copy(3));
    atoms.insert(101, Atom::Copy(4));
    atoms.forget(3);
    assert_eq!(atoms.get(3), None);
    assert_eq!(atoms.get(100), None);
    assert_eq!(atoms.get(101), Some(Atom::Copy(4)));
}

#[test]
fn where_ways_meet_only_what_both_have_stays() {
    let mut first = Atoms::default();
    for field in 0..200 {
        first.insert(field, Atom::Constant(0));
    }
    let mut second = first.clone();
    first.insert(40, Atom::Constant(1));
    first.insert(41, Atom::Parameter(0));
    second.forget(199);
    second.insert(300, Atom::Constant(2));
    first.meet(&second);
    let kept: Vec<u32> = (0..400)
        .filter(|field| first.get(*field).is_some())
        .collect();
    let expected: Vec<u32> = (0..199).filter(|field| !matches!(field, 40 | 41)).collect();
    assert_eq!(kept, expected);
    assert_eq!(second.get(40), Some(Atom::Constant(0)));
}
