//! Counter arrays and registers.

use std::ops::Range;
use std::sync::Arc;

use control::{CellValue, Operation, Pipeline};
use dataplane::{ControlErrorKind, CounterId, CounterValue, RegisterId};

use super::expect_context;
use super::tables::{counter_answer, counter_value};
use crate::call::{Answer, Answered, Refusal, declared, expect_room};
use crate::context::Context;
use crate::values::{of_i64, to_i64};
use bmv2_thrift::Args;
// The codes of counters and registers have the same numbers.
use bmv2_thrift::exception::{CounterCode as ArrayCode, Exception};
use bmv2_thrift::wire::Type;
use bmv2_thrift::wire::write::Writer;

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_counter_read" => read_counter(ctx, args).await,
        "bm_counter_write" => write_counter(ctx, args).await,
        "bm_counter_reset_all" => reset_counters(ctx, args).await,
        "bm_register_read" => read_register(ctx, args).await,
        "bm_register_read_all" => read_registers(ctx, args).await,
        "bm_register_write" => write_register(ctx, args).await,
        "bm_register_write_range" => write_registers(ctx, args).await,
        "bm_register_reset" => reset_registers(ctx, args).await,
        _ => return None,
    })
}

/// Converts an index, or refuses a negative one with a message that shows it.
pub(super) fn index(found: i32) -> Result<u64, String> {
    u64::try_from(found).map_err(|_| format!("expected an index from 0, found {found}"))
}

fn array_index(found: i32) -> Result<u64, Exception> {
    index(found).map_err(|message| Exception::new(ArrayCode::InvalidIndex, message))
}

fn code(kind: ControlErrorKind) -> ArrayCode {
    match kind {
        ControlErrorKind::OutOfRange => ArrayCode::InvalidIndex,
        _ => ArrayCode::Error,
    }
}

/// Converts an error of a read, and distinguishes errors of the array from errors of the device.
fn of_reading(error: control::Error) -> Refusal {
    match error {
        control::Error::Refused(error) => declared(code)(error),
        other => other.into(),
    }
}

fn none(what: &str, name: &str) -> Refusal {
    Exception::new(ArrayCode::InvalidName, format!("no {what} \"{name}\"")).into()
}

fn counter(ctx: &Context, args: Args<'_>) -> Result<(Arc<Pipeline>, CounterId), Refusal> {
    expect_context(args)?;
    let (pipeline, name) = (ctx.pipeline()?, args.text(2)?);
    let counter = pipeline.program().counter(name);
    let counter = counter.ok_or_else(|| none("counter array", name))?;
    Ok((pipeline, counter))
}

async fn read_counter(ctx: &Context, args: Args<'_>) -> Answered {
    let (_, counter) = counter(ctx, args)?;
    let mut cells = one(array_index(args.i32(3)?)?);
    let reading = ctx.device.reading().await?;
    let values = reading
        .counter_cells(counter, &mut cells)
        .await
        .map_err(of_reading)?;
    let value = values.and_then(|values| values.first().copied());
    Ok(counter_answer(value.unwrap_or_default()))
}

/// Returns the range with only this index. Cannot overflow: an index has 31 bits.
fn one(index: u64) -> Range<u64> {
    index..index + 1
}

async fn write_counter(ctx: &Context, args: Args<'_>) -> Answered {
    let (pipeline, counter) = counter(ctx, args)?;
    let value = CellValue::Counter(counter, counter_value(args.fields(4)?)?);
    set(ctx, pipeline, value, one(array_index(args.i32(3)?)?)).await
}

async fn reset_counters(ctx: &Context, args: Args<'_>) -> Answered {
    let (pipeline, counter) = counter(ctx, args)?;
    let size = move |switch: &dataplane::Switch| switch.counter_size(counter);
    let cells = 0..ctx.read_first(&pipeline, size).await?;
    let zero = CellValue::Counter(counter, CounterValue::default());
    set(ctx, pipeline, zero, cells).await
}

async fn set(
    ctx: &Context,
    pipeline: Arc<Pipeline>,
    value: CellValue,
    cells: Range<u64>,
) -> Answered {
    let result = ctx.write(pipeline, Operation::Cells(value, cells)).await?;
    result.map_err(declared(code))?;
    Ok(Answer::Void)
}

/// A register array with its number of cells and their width.
struct Register {
    pipeline: Arc<Pipeline>,
    id: RegisterId,
    size: u64,
    bits: u32,
}

impl Register {
    async fn of(ctx: &Context, args: Args<'_>) -> Result<Self, Refusal> {
        expect_context(args)?;
        let (pipeline, name) = (ctx.pipeline()?, args.text(2)?);
        let id = pipeline.program().register(name);
        let id = id.ok_or_else(|| none("register array", name))?;
        let measures = move |switch: &dataplane::Switch| {
            (switch.register_size(id), switch.register_width_bits(id))
        };
        let (size, bits) = ctx.read_first(&pipeline, measures).await?;
        Ok(Self {
            pipeline,
            id,
            size,
            bits,
        })
    }

    async fn set(self, ctx: &Context, value: i64, cells: Range<u64>) -> Answered {
        let value = CellValue::Register(self.id, of_i64(value, self.bits));
        set(ctx, self.pipeline, value, cells).await
    }
}

async fn read_register(ctx: &Context, args: Args<'_>) -> Answered {
    let register = Register::of(ctx, args).await?;
    let mut cells = one(array_index(args.i32(3)?)?);
    let reading = ctx.device.reading().await?;
    let values = reading
        .register_cells(register.id, &mut cells)
        .await
        .map_err(of_reading)?;
    let value = values.and_then(|values| values.first().map(|value| to_i64(value)));
    Ok(Answer::I64(value.unwrap_or_default()))
}

async fn read_registers(ctx: &Context, args: Args<'_>) -> Answered {
    let register = Register::of(ctx, args).await?;
    let _long = ctx.long_calls.acquire().await;
    let reading = ctx.device.reading().await?;
    let (mut cells, mut writer, mut n_cells) = (0..register.size, Writer::default(), 0);
    while let Some(values) = reading
        .register_cells(register.id, &mut cells)
        .await
        .map_err(of_reading)?
    {
        n_cells += values.len();
        values.iter().for_each(|value| writer.i64(to_i64(value)));
        expect_room(&writer)?;
    }
    Ok(Answer::list(Type::I64, n_cells, &writer))
}

async fn write_register(ctx: &Context, args: Args<'_>) -> Answered {
    let register = Register::of(ctx, args).await?;
    register
        .set(ctx, args.i64(4)?, one(array_index(args.i32(3)?)?))
        .await
}

/// Writes the cells from `start` up to, but not including, `end`.
async fn write_registers(ctx: &Context, args: Args<'_>) -> Answered {
    let register = Register::of(ctx, args).await?;
    let (start, end) = (array_index(args.i32(3)?)?, array_index(args.i32(4)?)?);
    if start > end || end > register.size {
        let message = format!(
            "expected cells of 0 to {}, found {start} to {end}",
            register.size
        );
        return Err(Exception::new(ArrayCode::InvalidIndex, message).into());
    }
    register.set(ctx, args.i64(5)?, start..end).await
}

async fn reset_registers(ctx: &Context, args: Args<'_>) -> Answered {
    let register = Register::of(ctx, args).await?;
    let cells = 0..register.size;
    register.set(ctx, 0, cells).await
}
