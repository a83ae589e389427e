//! Digests: BMv2 sends them over nanomsg and has them acknowledged here. There is no nanomsg here.

use crate::call::Answered;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, LearnCode};

/// None where there is no such call.
pub(crate) fn answer(call: &str, _args: Args<'_>) -> Option<Answered> {
    let is_one = matches!(
        call,
        "bm_learning_ack"
            | "bm_learning_ack_buffer"
            | "bm_learning_set_timeout"
            | "bm_learning_set_buffer_size"
    );
    is_one.then(|| {
        let message = "digests are not sent over nanomsg: P4Runtime's DigestEntry configures them, and its \
                       StreamChannel brings them as DigestList and takes DigestListAck";
        Err(Exception::new(LearnCode::Error, message).into())
    })
}
