//! Finds the fields that the architecture shares with the program, by the architecture's names.

use std::collections::HashMap;

use super::{Load, LoadError};
use crate::program::ir::{
    Architecture, Field, FieldId, Intrinsic, Meaning, Moment, StandardMetadata,
};

pub(super) fn resolve(
    architecture: &Architecture,
    names: &HashMap<String, FieldId>,
    fields: &[Field],
) -> Load<StandardMetadata> {
    let declared = |meaning| {
        let mut all = architecture.metadata.iter();
        all.find(|it| it.meaning == meaning)
    };
    let named = |it: &Intrinsic| it.names.iter().find_map(|name| names.get(*name)).copied();
    let is_there = |meaning: &Meaning| declared(*meaning).and_then(named).is_some();
    for intrinsic in architecture.metadata {
        let found = named(intrinsic).map(|field| &fields[field.index()]);
        check(intrinsic, found)?;
    }
    let mut metadata = StandardMetadata::of(|meaning| {
        let intrinsic = declared(meaning)?;
        named(intrinsic).filter(|_| intrinsic.needs.iter().all(is_there))
    });
    for moment in Moment::ALL {
        let written = architecture.metadata.iter();
        let written = written.filter(|intrinsic| intrinsic.written.contains(&moment));
        written.for_each(|intrinsic| metadata.write_at(moment, intrinsic.meaning));
    }
    Ok(metadata)
}

fn check(intrinsic: &Intrinsic, found: Option<&Field>) -> Load {
    let wrong = |message: String| {
        Err(LoadError {
            place: intrinsic.names.join(" or "),
            message,
        })
    };
    match found {
        None if intrinsic.is_required => wrong("the target needs this field".to_owned()),
        Some(field) if field.bits < intrinsic.bits_min => {
            let (min, bits) = (intrinsic.bits_min, field.bits);
            wrong(format!("expected {min} bits at least, found {bits}"))
        }
        _ => Ok(()),
    }
}
