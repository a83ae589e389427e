//! The controller headers, which carry packet metadata in front of a packet at the CPU port.
//!
//! Source: P4Runtime 1.5.0, "ControllerPacketMetadata" and "Packet I/O".

use p4runtime_proto::p4::config::v1::{ControllerPacketMetadata, P4Info};
use p4runtime_proto::p4::v1::PacketMetadata;
use tonic::Code;

use super::table::check_member_ids;
use super::translation::{NewNames, Types, Values, header_bits};
use super::{PipelineError, PipelineResult};
use crate::bytestring;
use crate::error::{EntityError, EntityResult};

/// A header with the annotation `@controller_header`.
pub(crate) struct PacketHeader {
    fields: Vec<HeaderField>,
    len_bytes: usize,
    /// False if the program declares the header without using it and a field is translated. Then the field's width is
    /// unknown, and no packet has the header.
    is_there: bool,
}

struct HeaderField {
    id: u32,
    name: String,
    values: Values,
}

pub(super) fn packet_headers(
    p4info: &P4Info,
    json: &bmv2_json::Program,
    types: &mut Types<'_>,
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
        let fields = fields(header, json, types).map_err(&error)?;
        let is_there = fields.is_some();
        let fields = fields.unwrap_or_default();
        let bits: u64 = fields
            .iter()
            .map(|field| u64::from(field.values.data_bits()))
            .sum();
        // p4c accepts a header that is not a whole number of bytes if the program does not use it. PI, the server in
        // simple_switch_grpc, pads such a header with zeros at the end.
        let len_bytes = usize::try_from(bits.div_ceil(8)).map_err(|e| error(e.to_string()))?;
        *place = Some(PacketHeader {
            fields,
            len_bytes,
            is_there,
        });
    }
    Ok((packet_in, packet_out))
}

/// Returns the fields in packet order. Their widths come from the program, or from the P4Info if the program does not
/// use the header. Returns `None` if the program does not use the header and a field is translated.
fn fields(
    header: &ControllerPacketMetadata,
    json: &bmv2_json::Program,
    types: &mut Types<'_>,
) -> Result<Option<Vec<HeaderField>>, String> {
    let named: Vec<(&str, Option<u32>)> = header
        .metadata
        .iter()
        .map(|metadata| {
            let is_translated = types.is_translated(metadata.type_name.as_ref());
            let bits = u32::try_from(metadata.bitwidth).map_err(|_| {
                format!(
                    "metadata field \"{}\" has {} bits",
                    metadata.name, metadata.bitwidth
                )
            })?;
            Ok((&*metadata.name, (!is_translated).then_some(bits)))
        })
        .collect::<Result<_, String>>()?;
    let data_bits = match header_bits(json, &named)? {
        Some(bits) => bits,
        None => match named.iter().map(|(_, bits)| *bits).collect() {
            Some(bits) => bits,
            None => return Ok(None),
        },
    };
    let fields = header
        .metadata
        .iter()
        .zip(data_bits)
        .map(|(metadata, data_bits)| {
            let values = types.values(metadata.type_name.as_ref(), metadata.bitwidth, data_bits);
            Ok(HeaderField {
                id: metadata.id,
                name: metadata.name.clone(),
                values: values
                    .map_err(|error| format!("metadata field \"{}\" {error}", metadata.name))?,
            })
        });
    fields.collect::<Result<_, String>>().map(Some)
}

impl PacketHeader {
    /// Splits a packet-in into metadata and payload. `None` if no packet has the header, or the packet is too short.
    pub(crate) fn decode<'a>(&self, frame: &'a [u8]) -> Option<(Vec<PacketMetadata>, &'a [u8])> {
        if !self.is_there {
            return None;
        }
        let (header, payload) = frame.split_at_checked(self.len_bytes)?;
        let mut offset_bits = 0;
        let metadata = self.fields.iter().map(|field| {
            let width_bits = field.values.data_bits();
            let value = bits(header, offset_bits, width_bits);
            offset_bits += width_bits as usize;
            PacketMetadata {
                metadata_id: field.id,
                value: field.values.to_controller(&value),
            }
        });
        Some((metadata.collect(), payload))
    }

    /// Encodes the header of a packet-out. Metadata must have exactly one value for each field.
    pub(crate) fn encode(&self, metadata: &[PacketMetadata]) -> EntityResult<Vec<u8>> {
        if !self.is_there {
            return Err(EntityError::new(
                Code::FailedPrecondition,
                "the program does not use its packet_out header, so no packet can have it",
            ));
        }
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
            // The P4Runtime specification's section on stream errors prescribes INVALID_ARGUMENT for any mismatch.
            let value = field
                .values
                .to_data(&given.value, NewNames::Refused, &what)
                .map_err(|error| EntityError::invalid(error.message))?;
            offset_bits += field.values.data_bits() as usize;
            put_bits(&mut header, offset_bits, &value);
        }
        Ok(header)
    }
}

/// Extracts `width_bits` bits that begin at a bit offset, most significant bit first. The result is in P4Runtime's
/// canonical form.
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

/// Writes a value so that its last bit is just before bit `end_bits`. The target bits must be zero.
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
            values: Values::Numbers {
                controller_bits: *width_bits,
                data_bits: *width_bits,
            },
        });
        PacketHeader {
            fields: fields.collect(),
            len_bytes: (widths.iter().sum::<u32>() as usize).div_ceil(8),
            is_there: true,
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

    /// As in simple_switch_grpc, the fields begin at the first bit, and zeros follow the last field.
    #[test]
    fn a_header_that_is_not_whole_bytes_is_filled_up_at_its_end() {
        let header = header(&[32, 1, 6]);
        let values = metadata(&[&[1, 2], &[1], &[0x2a]]);
        let bytes = header.encode(&values).unwrap();
        assert_eq!(bytes, [0, 0, 1, 2, 0b1101_0100]);
        let frame = [&bytes[..], b"payload"].concat();
        assert_eq!(header.decode(&frame).unwrap(), (values, &b"payload"[..]));
        assert_eq!(header.decode(&frame[..4]), None);
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
