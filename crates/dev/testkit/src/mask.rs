//! Implements a payload extern for tests.

use dataplane::{ParamInfo, PayloadBatch, PayloadExtern};

/// XORs the key, one byte, with every byte of the payload.
pub struct Mask;

impl PayloadExtern for Mask {
    fn params(&self) -> Vec<ParamInfo> {
        let (name, width_bits) = ("key".to_owned(), 8);
        vec![ParamInfo {
            name,
            width_bits,
            is_secret: false,
        }]
    }

    fn transform(&mut self, copies: PayloadBatch<'_>) {
        let payload = copies.payload();
        for copy in copies {
            let key = copy.args[0].to_be_bytes()[7];
            let bytes = copy.room.iter_mut().zip(payload);
            bytes.for_each(|(to, from)| *to = from ^ key);
            copy.finish(payload.len());
        }
    }
}
