//! Meter arrays. BMv2's rates are units per microsecond, the lower rate first.

use std::sync::Arc;

use control::{CellValue, Operation};
use dataplane::{ControlErrorKind, MeterConfig};

use super::arrays::index;
use super::expect_context;
use super::tables::EntryMeters;
use crate::call::{Answer, Answered, Refusal, declared};
use crate::context::Context;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, MeterCode};
use bmv2_thrift::message::{MeterRate, Structure};

const PER_SECOND: f64 = 1_000_000.0;

/// Converts BMv2's rates; a meter of v1model has two rates. The inner error says why the rates are invalid.
pub(super) fn rates(
    rates: Vec<Args<'_>>,
) -> Result<Result<MeterConfig, (MeterCode, String)>, Refusal> {
    let [committed, peak] = rates[..] else {
        let message = format!("expected two rates, found {}", rates.len());
        return Ok(Err((MeterCode::BadRatesList, message)));
    };
    let rate = |args: Args<'_>| {
        let rate = MeterRate::read(args)?;
        Ok((rate.units_per_micros, rate.burst)) as Result<(f64, i32), Refusal>
    };
    let ((committed, committed_burst), (peak, peak_burst)) = (rate(committed)?, rate(peak)?);
    if !(0.0..=peak).contains(&committed) || !peak.is_finite() {
        let message =
            format!("expected rates from 0 on, the lower first, found {committed} and {peak}");
        return Ok(Err((MeterCode::InvalidInfoRate, message)));
    }
    let per_second = |rate: f64| (rate * PER_SECOND).round() as u64;
    Ok(Ok(MeterConfig {
        committed_rate: per_second(committed),
        committed_burst: committed_burst.cast_unsigned().into(),
        peak_rate: per_second(peak),
        peak_burst: peak_burst.cast_unsigned().into(),
        excess_burst: 0,
    }))
}

/// Encodes a meter's rates as a list, which is empty if the meter has no config.
pub(super) fn rates_answer(config: Option<MeterConfig>) -> Answer {
    let rates = config.map(|config| {
        [
            (config.committed_rate, config.committed_burst),
            (config.peak_rate, config.peak_burst),
        ]
    });
    let rates = rates.into_iter().flatten().map(|(rate, burst)| MeterRate {
        units_per_micros: rate as f64 / PER_SECOND,
        burst: i32::try_from(burst).unwrap_or(i32::MAX),
    });
    Answer::structures(&rates.collect::<Vec<_>>())
}

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_meter_array_set_rates" => set(ctx, args, None).await,
        "bm_meter_set_rates" => set(ctx, args, Some(3)).await,
        "bm_meter_get_rates" => get(ctx, args).await,
        _ => return None,
    })
}

fn code(kind: ControlErrorKind) -> MeterCode {
    match kind {
        ControlErrorKind::OutOfRange => MeterCode::InvalidIndex,
        ControlErrorKind::InvalidArgument => MeterCode::InvalidInfoRate,
        _ => MeterCode::Error,
    }
}

/// What a meter's name refers to: an array, or the direct meter of a table.
enum Named {
    Array(dataplane::MeterId),
    Entries(EntryMeters),
}

fn find(ctx: &Context, args: Args<'_>) -> Result<(Arc<control::Pipeline>, Named), Refusal> {
    expect_context(args)?;
    let (pipeline, name) = (ctx.pipeline()?, args.text(2)?);
    let array = pipeline.program().meter(name).map(Named::Array);
    let named = array.or_else(|| EntryMeters::named(&pipeline, name).map(Named::Entries));
    let named = named.ok_or_else(|| {
        Exception::new(MeterCode::InvalidName, format!("no meter array \"{name}\""))
    })?;
    Ok((pipeline, named))
}

/// Sets the cell whose index is in `index_field`, or all cells.
async fn set(ctx: &Context, args: Args<'_>, index_field: Option<i16>) -> Answered {
    let (pipeline, named) = find(ctx, args)?;
    let rates = rates(args.all_fields(index_field.unwrap_or(2) + 1)?)?;
    let config = rates.map_err(|(code, message)| Exception::new(code, message))?;
    let cell = match index_field {
        Some(field) => {
            let index = meter_index(args.i32(field)?)?;
            Some(index..index + 1)
        }
        None => None,
    };
    let meter = match named {
        Named::Array(meter) => meter,
        Named::Entries(entries) => {
            if let Some(cell) = &cell {
                expect_place(&entries, cell.start)?;
            }
            return entries.set(ctx, cell, config, code).await;
        }
    };
    let cells = match cell {
        Some(cell) => cell,
        None => {
            let size = move |switch: &dataplane::Switch| switch.meter_size(meter);
            0..ctx.read_first(&pipeline, size).await?
        }
    };
    let set = Operation::Cells(CellValue::Meter(meter, Some(config)), cells);
    ctx.write(pipeline, set).await?.map_err(declared(code))?;
    Ok(Answer::Void)
}

fn meter_index(found: i32) -> Result<u64, Exception> {
    index(found).map_err(|message| Exception::new(MeterCode::InvalidIndex, message))
}

fn expect_place(entries: &EntryMeters, place: u64) -> Result<(), Refusal> {
    let size = entries.size();
    if place < size {
        return Ok(());
    }
    let message = format!("expected an index below {size}, found {place}");
    Err(Exception::new(MeterCode::InvalidIndex, message).into())
}

async fn get(ctx: &Context, args: Args<'_>) -> Answered {
    let (pipeline, named) = find(ctx, args)?;
    let index = meter_index(args.i32(3)?)?;
    let meter = match named {
        Named::Array(meter) => meter,
        Named::Entries(entries) => {
            expect_place(&entries, index)?;
            return Ok(rates_answer(entries.get(ctx, index).await?));
        }
    };
    let read = move |switch: &dataplane::Switch| switch.meter_cell(meter, index);
    let config = ctx.read_first(&pipeline, read).await?;
    Ok(rates_answer(config.map_err(declared(code))?))
}
