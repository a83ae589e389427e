//! Commands for counters, meters and registers.

use bmv2_thrift::Call;
use bmv2_thrift::message::{CounterValue, MeterRate, read_all};

use super::{Typed, find, program};
use crate::connection::Operation;
use crate::error::{Done, Error};
use crate::program::{Counter, Meter, Program};
use crate::session::{Session, say};
use crate::value::{decimal, float, i32_of};

fn counter<'a>(program: &'a Program, name: &str) -> Result<&'a Counter, Error> {
    find(&program.counters, "counter", name)
}

pub fn counter_read(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, index] = typed.exactly()?;
    let program = program(session);
    let counter = counter(&program, name)?;
    let index = i32_of(index, "index")?;
    let answer = match &counter.table {
        Some(table) => {
            say!(session, "this is the direct counter for table {table}")?;
            let call = Call::in_context("bm_mt_read_counter");
            session.table(call.bytes(table).i32(index))?
        }
        None => {
            let call = Call::in_context("bm_counter_read");
            let call = call.bytes(&counter.name).i32(index);
            session.standard(call, Operation::Counter)?
        }
    };
    let CounterValue { bytes, packets } = answer.structure()?;
    Ok(say!(
        session,
        "{name}[{index}]= ({bytes} bytes, {packets} packets)"
    )?)
}

/// Parses a counter value: the protocol carries it as i64, but values up to u64's maximum are
/// valid.
fn i64_of(text: &str, format_of: &str) -> Result<i64, Error> {
    let number = decimal(text);
    let number = number.ok_or_else(|| Error::input(format!("Bad format for {format_of}")))?;
    let signed = i64::try_from(&number).ok();
    let number = signed.or_else(|| u64::try_from(&number).ok().map(u64::cast_signed));
    number.ok_or_else(|| {
        Error::input(format!(
            "Bad format for {format_of}, expected a number of 64 bits"
        ))
    })
}

pub fn counter_write(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, index, packets, bytes] = typed.exactly()?;
    let program = program(session);
    let counter = counter(&program, name)?;
    let index = i32_of(index, "index")?;
    let packets = i64_of(packets, "packets")?;
    let value = CounterValue {
        packets,
        bytes: i64_of(bytes, "bytes")?,
    };
    match &counter.table {
        Some(table) => {
            say!(session, "writing to direct counter for table {table}")?;
            let call = Call::in_context("bm_mt_write_counter");
            session.table(call.bytes(table).i32(index).structure(&value))?;
        }
        None => {
            let call = Call::in_context("bm_counter_write");
            let call = call.bytes(&counter.name).i32(index).structure(&value);
            session.standard(call, Operation::Counter)?;
        }
    }
    Ok(say!(session, "{name}[{index}] has been updated")?)
}

pub fn counter_reset(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    let counter = counter(&program, name)?;
    match &counter.table {
        Some(table) => {
            say!(session, "this is the direct counter for table {table}")?;
            session.table(Call::in_context("bm_mt_reset_counters").bytes(table))?;
        }
        None => {
            let call = Call::in_context("bm_counter_reset_all").bytes(&counter.name);
            session.standard(call, Operation::Counter)?;
        }
    }
    Ok(())
}

fn meter<'a>(program: &'a Program, name: &str) -> Result<&'a Meter, Error> {
    find(&program.meters, "meter", name)
}

fn rates(meter: &Meter, typed: &[&str]) -> Result<Vec<MeterRate>, Error> {
    let (expected, found) = (meter.n_rates, typed.len());
    if found != expected {
        return Err(Error::input(format!(
            "Invalid number of rates, expected {expected} but got {found}"
        )));
    }
    let rate = |text: &&str| {
        let (rate, burst) = text.split_once(':')?;
        Some(MeterRate {
            units_per_micros: rate.parse().ok()?,
            burst: i32::try_from(decimal(burst)?).ok()?,
        })
    };
    let rates: Option<Vec<MeterRate>> = typed.iter().map(rate).collect();
    rates.ok_or_else(|| Error::input("Error while parsing rates"))
}

pub fn meter_array_set_rates(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [name, rates @ ..] = typed.at_least(1)? else {
        return Ok(());
    };
    let meter = meter(&program, name)?;
    let rates = self::rates(meter, rates)?;
    let call = Call::in_context("bm_meter_array_set_rates").bytes(&meter.name);
    session.standard(call.structures(&rates), Operation::Meter)?;
    Ok(())
}

pub fn meter_set_rates(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let [name, index, rates @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let meter = meter(&program, name)?;
    let index = i32_of(index, "index")?;
    let rates = self::rates(meter, rates)?;
    match &meter.table {
        Some(table) => {
            let call = Call::in_context("bm_mt_set_meter_rates").bytes(table);
            session.table(call.i32(index).structures(&rates))?;
        }
        None => {
            let call = Call::in_context("bm_meter_set_rates").bytes(&meter.name);
            session.standard(call.i32(index).structures(&rates), Operation::Meter)?;
        }
    }
    Ok(())
}

pub fn meter_get_rates(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, index] = typed.exactly()?;
    let program = program(session);
    let meter = meter(&program, name)?;
    let index = i32_of(index, "index")?;
    let answer = match &meter.table {
        Some(table) => {
            let call = Call::in_context("bm_mt_get_meter_rates").bytes(table);
            session.table(call.i32(index))?
        }
        None => {
            let call = Call::in_context("bm_meter_get_rates").bytes(&meter.name);
            session.standard(call.i32(index), Operation::Meter)?
        }
    };
    let rates: Vec<MeterRate> = answer.result(read_all)?;
    let (expected, found) = (meter.n_rates, rates.len());
    if found != expected {
        say!(
            session,
            "WARNING: expected {expected} rates but only received {found}"
        )?;
    }
    for (place, rate) in rates.iter().enumerate() {
        let (units, burst) = (float(rate.units_per_micros), rate.burst);
        say!(
            session,
            "{place}: info rate = {units}, burst size = {burst}"
        )?;
    }
    Ok(())
}

fn register<'a>(program: &'a Program, name: &str) -> Result<&'a String, Error> {
    find(&program.registers, "register", name)
}

pub fn register_read(session: &mut Session, typed: &Typed<'_>) -> Done {
    let program = program(session);
    let name = typed.at_least(1)?[0];
    let register = register(&program, name)?;
    if typed.words.len() == 1 {
        session
            .out
            .error_line(format_args!("register index omitted, reading entire array"))?;
        let call = Call::in_context("bm_register_read_all").bytes(register);
        let answer = session.standard(call, Operation::Register)?;
        let values = answer.result(|args, id| args.all_i64(id))?;
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        return Ok(say!(session, "{name}= {}", values.join(", "))?);
    }
    let [_, index] = typed.exactly()?;
    let index = i32_of(index, "index")?;
    let call = Call::in_context("bm_register_read").bytes(register);
    let answer = session.standard(call.i32(index), Operation::Register)?;
    let value = answer.result(|args, id| args.i64(id))?;
    Ok(say!(session, "{name}[{index}]= {value}")?)
}

pub fn register_write(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name, index, value] = typed.exactly()?;
    let program = program(session);
    let register = register(&program, name)?;
    let index = i32_of(index, "index")?;
    if decimal(value).is_none() {
        return Err(Error::input("Bad format for value, must be an integer"));
    }
    let value = i64_of(value, "value")?;
    let call = Call::in_context("bm_register_write").bytes(register);
    session.standard(call.i32(index).i64(value), Operation::Register)?;
    Ok(())
}

pub fn register_reset(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    let program = program(session);
    let call = Call::in_context("bm_register_reset").bytes(register(&program, name)?);
    session.standard(call, Operation::Register)?;
    Ok(())
}
