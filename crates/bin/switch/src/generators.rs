//! The packet generators of the command line. Their frames are read before the switch starts.

use dataplane::{GeneratorConfig, Nanos, Switch, limits};
use packet_io::{PcapPort, Port, PortError};

use crate::error::SwitchError;
use crate::options::{GenerateOption, Options};

/// Frames that are read between two checks of the capture's size.
const READ_FRAMES: usize = 64;

/// A packet generator whose frames have been read from its capture file.
pub(crate) struct ReadGenerator {
    text: String,
    config: GeneratorConfig,
    starts_now: bool,
}

pub(crate) fn read(options: &Options) -> Result<Vec<ReadGenerator>, SwitchError> {
    let generators = options.generate.iter().map(|option| {
        Ok(ReadGenerator {
            text: option.text.clone(),
            config: GeneratorConfig {
                name: option.name.clone(),
                port: option.port,
                frames: read_frames(option)?.into(),
                pace: option.pace,
                count: option.count,
            },
            starts_now: option.starts_now,
        })
    });
    generators.collect()
}

/// Inserts the generators into a switch, numbered from 1.
pub(crate) fn insert(
    switch: &mut Switch,
    generators: Vec<ReadGenerator>,
) -> Result<(), SwitchError> {
    for (id, generator) in (1..).zip(generators) {
        let ReadGenerator {
            text,
            config,
            starts_now,
        } = generator;
        let inserted = switch.insert_generator(id, config, starts_now);
        inserted.map_err(|error| SwitchError::Generator {
            text,
            message: error.message,
        })?;
    }
    Ok(())
}

/// Reads the frames of a capture; stops when they exceed the bytes that a generator may have.
fn read_frames(option: &GenerateOption) -> Result<Vec<Box<[u8]>>, SwitchError> {
    let fail = |message: String| SwitchError::Generator {
        text: option.text.clone(),
        message,
    };
    let of_file = |error: PortError| fail(error.to_string());
    let mut capture = PcapPort::open(Some(&option.file), None).map_err(of_file)?;
    let (mut frames, mut n_bytes) = (Vec::new(), 0);
    while n_bytes <= limits::GENERATOR_BYTES_MAX {
        let mut take = |frame: &[u8]| {
            n_bytes += frame.len();
            frames.push(Box::from(frame));
        };
        let received = capture.receive(Nanos::MAX, READ_FRAMES, &mut take);
        if received.map_err(of_file)? == 0 {
            break;
        }
    }
    let statistics = capture.statistics();
    let n_cut = statistics.rx_truncated + statistics.rx_too_short;
    if n_cut > 0 {
        return Err(fail(format!(
            "expected whole frames, found {n_cut} that are cut short or shorter than an Ethernet header: capture whole ones (tcpdump -s 0)"
        )));
    }
    Ok(frames)
}
