//! Changes the strings of a message, for example to escape names and descriptions that somebody else chose.

use std::borrow::Cow;
use std::mem;

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, MapKey, Value};

use crate::text_format::dynamic;

type Change = fn(&str) -> Cow<'_, str>;

/// Returns a copy of the message with `change` applied to each text in it, keys of maps included.
pub fn with_texts<M: Message + Name + Default>(message: &M, change: Change) -> M {
    let mut copy = dynamic(message);
    change_message(&mut copy, change);
    copy.transcode_to()
        .expect("the copy has the fields of the message")
}

fn change_message(message: &mut DynamicMessage, change: Change) {
    for (_, value) in message.fields_mut() {
        change_value(value, change);
    }
}

fn change_value(value: &mut Value, change: Change) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Message(message) => change_message(message, change),
        Value::List(values) => {
            for value in values {
                change_value(value, change);
            }
        }
        Value::Map(map) => {
            let entries = mem::take(map).into_iter().map(|(key, mut value)| {
                change_value(&mut value, change);
                let key = match key {
                    MapKey::String(text) => MapKey::String(change(&text).into_owned()),
                    key => key,
                };
                (key, value)
            });
            *map = entries.collect();
        }
        _ => {}
    }
}
