//! The controller headers: how packet metadata lies in front of a packet at the CPU port.
//!
//! Source: P4Runtime 1.5.0, "ControllerPacketMetadata" and "Packet I/O".

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::PacketMetadata;

use super::table::check_member_ids;
use super::{PipelineError, PipelineResult};
use crate::bytestring;
use crate::error::{EntityError, EntityResult};

/// A header annotated `@controller_header`.
pub(crate) struct PacketHeader {
    fields: Vec<HeaderField>,
    len_bytes: usize,
}

struct HeaderField {
    id: u32,
    name: String,
    width_bits: u32,
}

/// The headers of packet-in and packet-out.
pub(super) fn packet_headers(
    p4info: &P4Info,
) -> PipelineResult<(Option<PacketHeader>, Option<PacketHeader>)> {
    let (mut packet_in, mut packet_out) = (None, None);
    for header in &p4info.controller_packet_metadata {
        let preamble = header.preamble.clone().unwrap_or_default();
        let error = |message: String| {
            PipelineError(format!(
                "P4Info controller header \"{}\": {message}",
                preamble.name
            ))
        };
        let place = match preamble.name.as_str() {
            "packet_in" => &mut packet_in,
            "packet_out" => &mut packet_out,
            _ => return Err(error("expected packet_in or packet_out".into())),
        };
        if place.is_some() {
            return Err(error("there are two of them".into()));
        }
        check_member_ids("metadata field", header.metadata.iter().map(|m| m.id)).map_err(&error)?;
        let mut fields = Vec::new();
        for metadata in &header.metadata {
            let width_bits = u32::try_from(metadata.bitwidth).unwrap_or(0);
            if width_bits == 0 {
                return Err(error(format!(
                    "metadata field \"{}\": expected a width in bits, found {}",
                    metadata.name, metadata.bitwidth
                )));
            }
            fields.push(HeaderField {
                id: metadata.id,
                name: metadata.name.clone(),
                width_bits,
            });
        }
        let bits: u64 = fields.iter().map(|field| u64::from(field.width_bits)).sum();
        if !bits.is_multiple_of(8) {
            return Err(error(format!("expected whole bytes, found {bits} bits")));
        }
        let len_bytes = usize::try_from(bits / 8).map_err(|e| error(e.to_string()))?;
        *place = Some(PacketHeader { fields, len_bytes });
    }
    Ok((packet_in, packet_out))
}

impl PacketHeader {
    /// Takes the header off a packet-in; none if the packet is shorter than its header.
    pub(crate) fn decode<'a>(&self, frame: &'a [u8]) -> Option<(Vec<PacketMetadata>, &'a [u8])> {
        let (header, payload) = frame.split_at_checked(self.len_bytes)?;
        let mut offset_bits = 0;
        let metadata = self.fields.iter().map(|field| {
            let value = bits(header, offset_bits, field.width_bits);
            offset_bits += field.width_bits as usize;
            PacketMetadata {
                metadata_id: field.id,
                value,
            }
        });
        Some((metadata.collect(), payload))
    }

    /// The header of a packet-out: exactly one value for each field.
    pub(crate) fn encode(&self, metadata: &[PacketMetadata]) -> EntityResult<Vec<u8>> {
        for given in metadata {
            if !self
                .fields
                .iter()
                .any(|field| field.id == given.metadata_id)
            {
                return Err(EntityError::invalid(format!(
                    "packet_out has no metadata field with id {}",
                    given.metadata_id
                )));
            }
        }
        let mut header = vec![0; self.len_bytes];
        let mut offset_bits = 0;
        for field in &self.fields {
            let mut values = metadata.iter().filter(|m| m.metadata_id == field.id);
            let what = format!(
                "packet_out metadata field \"{}\" (id {})",
                field.name, field.id
            );
            let (Some(given), None) = (values.next(), values.next()) else {
                return Err(EntityError::invalid(format!(
                    "{what}: expected one value, found {}",
                    metadata
                        .iter()
                        .filter(|m| m.metadata_id == field.id)
                        .count()
                )));
            };
            // The section on stream errors names INVALID_ARGUMENT for whatever does not match.
            let value = bytestring::parse(&given.value, field.width_bits, what)
                .map_err(|error| EntityError::invalid(error.message))?;
            offset_bits += field.width_bits as usize;
            put_bits(&mut header, offset_bits, &value);
        }
        Ok(header)
    }
}

/// The canonical value of `width_bits` bits from a bit offset on, most significant first.
fn bits(bytes: &[u8], offset_bits: usize, width_bits: u32) -> Vec<u8> {
    let width_bits = width_bits as usize;
    let mut value = vec![0; width_bits.div_ceil(8)];
    let spare = value.len() * 8 - width_bits;
    for bit in 0..width_bits {
        let from = offset_bits + bit;
        if bytes[from / 8] & (0x80 >> (from % 8)) != 0 {
            value[(spare + bit) / 8] |= 0x80 >> ((spare + bit) % 8);
        }
    }
    bytestring::canonical(&value)
}

/// Sets the bits of a value that fits and ends before bit `end_bits`; they were zero.
fn put_bits(bytes: &mut [u8], end_bits: usize, value: &[u8]) {
    for bit in 0..(value.len() * 8).min(end_bits) {
        if value[value.len() - 1 - bit / 8] & (1 << (bit % 8)) != 0 {
            let to = end_bits - 1 - bit;
            bytes[to / 8] |= 0x80 >> (to % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(widths: &[u32]) -> PacketHeader {
        let fields = (1..).zip(widths).map(|(id, width_bits)| HeaderField {
            id,
            name: format!("f{id}"),
            width_bits: *width_bits,
        });
        PacketHeader {
            fields: fields.collect(),
            len_bytes: widths.iter().sum::<u32>() as usize / 8,
        }
    }

    fn metadata(values: &[&[u8]]) -> Vec<PacketMetadata> {
        let metadata = (1..)
            .zip(values)
            .map(|(metadata_id, value)| PacketMetadata {
                metadata_id,
                value: value.to_vec(),
            });
        metadata.collect()
    }

    #[test]
    fn nine_bit_ports_lie_across_the_byte_boundary() {
        let header = header(&[9, 7]);
        let values = metadata(&[&[1, 0xfe], &[0]]);
        let bytes = header.encode(&values).unwrap();
        assert_eq!(bytes, [0xff, 0x00]);
        let frame = [&bytes[..], b"payload"].concat();
        assert_eq!(header.decode(&frame).unwrap(), (values, &b"payload"[..]));
        assert_eq!(header.decode(&[0xff]), None);
    }

    #[test]
    fn wide_fields_survive() {
        let header = header(&[3, 48, 13]);
        let values = metadata(&[&[5], &[2, 0, 0, 0, 0, 1], &[0x1f, 0xff]]);
        let bytes = header.encode(&values).unwrap();
        assert_eq!(header.decode(&bytes).unwrap().0, values);
    }

    #[test]
    fn wrong_metadata_is_refused() {
        let header = header(&[9, 7]);
        for wrong in [
            metadata(&[&[1]]),
            metadata(&[&[1], &[0], &[0]]),
            metadata(&[&[2, 0], &[0]]),
            metadata(&[&[], &[0]]),
            [metadata(&[&[1], &[0]]), metadata(&[&[1]])].concat(),
        ] {
            let error = header.encode(&wrong).unwrap_err();
            assert_eq!(error.code, tonic::Code::InvalidArgument, "{wrong:?}");
        }
    }
}
