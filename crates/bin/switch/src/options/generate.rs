//! The option of a packet generator.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use dataplane::{Pace, PortId, limits};

/// Keys that may follow a generator's file.
const GENERATOR_KEYS: [&str; 6] = ["port", "rate", "period", "count", "name", "start"];

/// The maximum rate of a generator in packets per second; a generator's clock counts nanoseconds.
const MAX_RATE_PPS: u64 = 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GenerateOption {
    /// The option's value, for messages.
    pub(crate) text: String,
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    pub(crate) port: PortId,
    pub(crate) pace: Pace,
    pub(crate) count: Option<u64>,
    /// Whether the generator starts together with the switch.
    pub(crate) starts_now: bool,
}

impl FromStr for GenerateOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read_generator(text).map_err(|reason| {
            format!(
                "expected FILE,port=P,rate=R or FILE,port=P,period=T, and count=N, name=X, start=now or start=command behind it where wanted, for example load.pcap,port=1,rate=10000; {reason}"
            )
        })
    }
}

fn read_generator(text: &str) -> Result<GenerateOption, String> {
    let mut words = text.split(',');
    let file = words.next().filter(|file| !file.is_empty());
    let file = PathBuf::from(file.ok_or("there is no file")?);
    let mut values = BTreeMap::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("there is no \"=\" in \"{word}\""));
        };
        if !GENERATOR_KEYS.contains(&key) {
            return Err(format!(
                "\"{key}\" is none of {}",
                GENERATOR_KEYS.join(", ")
            ));
        }
        if values.insert(key, value).is_some() {
            return Err(format!("\"{key}\" is given twice"));
        }
    }
    let port = number(values.get("port"), "port", limits::PORT_ID_MAX.into())?;
    let port = port.ok_or("there is no port")?;
    let pace = match (values.get("rate"), values.get("period")) {
        (Some(rate), None) => number(Some(rate), "rate", MAX_RATE_PPS)?.map(Pace::per_second),
        (None, Some(period)) => Some(Pace::every(read_period(period)?)),
        (None, None) => return Err("there is neither rate nor period".to_owned()),
        (Some(_), Some(_)) => return Err("there are both rate and period".to_owned()),
    };
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let name = values.get("name").map(|name| (*name).into()).or(stem);
    Ok(GenerateOption {
        text: text.to_owned(),
        name: name.unwrap_or_default().into_owned(),
        port: PortId(u16::try_from(port).unwrap_or(u16::MAX)),
        pace: pace.ok_or("there is no rate")?,
        count: number(values.get("count"), "count", u64::MAX)?,
        starts_now: match values.get("start") {
            None | Some(&"now") => true,
            Some(&"command") => false,
            Some(other) => return Err(format!("\"{other}\" is neither now nor command")),
        },
        file,
    })
}

/// Parses a key's number; `None` if the key is missing.
fn number(text: Option<&&str>, key: &str, max: u64) -> Result<Option<u64>, String> {
    let Some(text) = text else { return Ok(None) };
    let min = u64::from(key != "port");
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
        _ => Err(format!(
            "{key}: \"{text}\" is no number from {min} to {max}"
        )),
    }
}

/// Parses a time with its unit; returns nanoseconds.
fn read_period(text: &str) -> Result<u64, String> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit_ns = match unit {
        "ns" => Some(1_u64),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        _ => None,
    };
    let period = number.parse::<u64>().ok().filter(|number| *number > 0);
    let period = period
        .zip(unit_ns)
        .and_then(|(number, ns)| number.checked_mul(ns));
    period.ok_or_else(|| {
        format!("period: \"{text}\" is no time from 1ns on, like 500ns, 10us, 2ms or 1s")
    })
}
