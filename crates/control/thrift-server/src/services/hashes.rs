//! Parameters of custom CRCs. v1model programs have no Toeplitz hashes.

use std::sync::Arc;

use control::Operation;
use dataplane::{ControlErrorKind, CrcParameters};

use super::expect_context;
use crate::call::{Answer, Answered, Refusal, declared};
use crate::context::Context;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, HashCode};
use bmv2_thrift::message::{Crc16, Crc32, Structure};

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_set_crc16_custom_parameters" => set(ctx, args, 16).await,
        "bm_set_crc32_custom_parameters" => set(ctx, args, 32).await,
        "bm_set_toeplitz_hash_key" => toeplitz(args),
        _ => return None,
    })
}

fn code(kind: ControlErrorKind) -> HashCode {
    match kind {
        ControlErrorKind::NotFound => HashCode::InvalidName,
        ControlErrorKind::FailedPrecondition => HashCode::WrongType,
        _ => HashCode::InvalidConfig,
    }
}

/// Reads the parameters of a CRC. Thrift has no unsigned numbers, so the bits of signed numbers are reinterpreted.
fn parameters(args: Args<'_>, bits: u32) -> Result<CrcParameters, Refusal> {
    let ([polynomial, initial, xor_out], [reflect_in, reflect_out]) = match bits {
        16 => {
            let crc = Crc16::read(args)?;
            let number = |number: i16| u64::from(number.cast_unsigned());
            (crc.numbers.map(number), crc.reflected)
        }
        _ => {
            let crc = Crc32::read(args)?;
            let number = |number: i32| u64::from(number.cast_unsigned());
            (crc.numbers.map(number), crc.reflected)
        }
    };
    Ok(CrcParameters {
        polynomial,
        initial,
        xor_out,
        reflect_in,
        reflect_out,
    })
}

async fn set(ctx: &Context, args: Args<'_>, bits: u32) -> Answered {
    expect_context(args)?;
    let (pipeline, name) = (ctx.pipeline()?, args.text(2)?);
    let fields = args.fields(3)?;
    let fields = fields.ok_or_else(|| Refusal::protocol("field 3: expected parameters".into()))?;
    let mut calculations = pipeline.program().ir().calculations.iter();
    let found = calculations.find(|it| it.name == name);
    let found_bits = found.and_then(|it| it.algorithm.custom_crc_bits());
    if found_bits.is_some_and(|found| found != bits) {
        let message = format!("calculation \"{name}\" is no custom CRC of {bits} bits");
        return Err(Exception::new(HashCode::WrongType, message).into());
    }
    let set = Operation::Crc(name.to_owned(), parameters(fields, bits)?);
    ctx.write(pipeline, set).await?.map_err(declared(code))?;
    Ok(Answer::Void)
}

fn toeplitz(args: Args<'_>) -> Answered {
    expect_context(args)?;
    let message = format!(
        "\"{}\" is no Toeplitz hash: v1model has none",
        args.text(2)?
    );
    Err(Exception::new(HashCode::WrongType, message).into())
}
