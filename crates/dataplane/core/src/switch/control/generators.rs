//! Packet generators. They need no program.

use crate::{
    ControlErrorKind, Controlled, GeneratorChange, GeneratorConfig, GeneratorStatus, invalid,
    limits, refuse,
    switch::{Switch, generator::Generator},
};

impl Switch {
    /// Adds a packet generator, whose id must be at least 1, and starts it if `runs`.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`.
    pub fn insert_generator(&mut self, id: u32, config: GeneratorConfig, runs: bool) -> Controlled {
        expect_possible(id, &config)?;
        if self.generators.iter().any(|generator| generator.id == id) {
            let message = format!("generator {id} is there already: modify it, or delete it first");
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        if self.generators.len() >= limits::GENERATORS_MAX {
            let max = limits::GENERATORS_MAX;
            let message = format!("generator {id}: the switch has {max} already, delete one first");
            return refuse(ControlErrorKind::ResourceExhausted, message);
        }
        self.generators.push(Generator::new(id, config, runs));
        self.generators.sort_by_key(|generator| generator.id);
        Ok(())
    }

    /// Changes, starts or stops a generator. A new port, pace, count or set of frames restarts a running generator; its
    /// counters continue.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`.
    pub fn modify_generator(&mut self, id: u32, change: &GeneratorChange) -> Controlled {
        let of_id = |generator: &&mut Generator| generator.id == id;
        let Some(generator) = self.generators.iter_mut().find(of_id) else {
            return not_found(id);
        };
        let mut config = generator.config.clone();
        change.apply(&mut config);
        expect_possible(id, &config)?;
        generator.change(change, config);
        Ok(())
    }

    /// Removes a generator and its counters. The switch still processes the frames that the generator made.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_generator(&mut self, id: u32) -> Controlled {
        let n_generators = self.generators.len();
        self.generators.retain(|generator| generator.id != id);
        if self.generators.len() < n_generators {
            Ok(())
        } else {
            not_found(id)
        }
    }

    /// Every generator, sorted by id.
    pub fn generators(&self) -> Vec<GeneratorStatus> {
        self.generators.iter().map(Generator::status).collect()
    }
}

fn not_found<T>(id: u32) -> Controlled<T> {
    let message = format!("there is no generator {id}: insert it first");
    refuse(ControlErrorKind::NotFound, message)
}

fn expect_possible(id: u32, config: &GeneratorConfig) -> Controlled {
    let wrong = |message: String| invalid(format!("generator {id}: {message}"));
    let GeneratorConfig {
        name,
        port,
        frames,
        pace,
        count,
    } = config;
    if id == 0 {
        return wrong("expected a number from 1".to_owned());
    }
    let name_max = limits::GENERATOR_NAME_BYTES_MAX;
    if name.is_empty() || name.len() > name_max || name.chars().any(char::is_control) {
        return wrong(format!(
            "expected a name of 1 to {name_max} bytes without control characters, found {name:?}"
        ));
    }
    if port.0 > limits::PORT_ID_MAX {
        let max = limits::PORT_ID_MAX;
        return wrong(format!("expected a port from 0 to {max}, found {port}"));
    }
    if frames.is_empty() {
        return wrong("expected at least one frame, found none".to_owned());
    }
    let (min, max) = (limits::GENERATOR_FRAME_BYTES_MIN, limits::FRAME_BYTES_MAX);
    let is_possible = |len: usize| (min..=max).contains(&len);
    let mut lengths = frames.iter().map(|frame| frame.len()).enumerate();
    if let Some((place, len)) = lengths.find(|(_, len)| !is_possible(*len)) {
        let number = place + 1;
        return wrong(format!(
            "frame {number}: expected {min} to {max} bytes, found {len}"
        ));
    }
    let (n_bytes, max) = (total(frames), limits::GENERATOR_BYTES_MAX);
    if n_bytes > max {
        return wrong(format!(
            "expected frames of {max} bytes at most together, found {n_bytes}"
        ));
    }
    if pace.frames == 0 || pace.per_ns == 0 {
        return wrong("expected a period or a rate of 1 at least, found 0".to_owned());
    }
    if *count == Some(0) {
        return wrong("expected a count of 1 at least, found 0".to_owned());
    }
    Ok(())
}

fn total(frames: &[Box<[u8]>]) -> usize {
    frames.iter().map(|frame| frame.len()).sum()
}
