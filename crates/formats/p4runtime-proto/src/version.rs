//! Reduces a P4Info to what readers of an older P4Runtime know.
//!
//! Such readers ignore unknown fields in protobuf's binary format, but refuse them in its text format. So a text file
//! for these readers must not have newer fields. Source: `p4info.proto` of the releases 1.3.0, 1.4.1 and 1.5.0.

use std::fmt;
use std::str::FromStr;

use crate::p4::config::v1::P4Info;

/// The name of an environment variable whose value is a version of P4Runtime. A program of Reprise that writes a P4Info
/// writes it for that version.
pub const P4RUNTIME_VERSION_VARIABLE: &str = "REPRISE_P4RUNTIME_VERSION";

/// A version of P4Runtime whose P4Info differs from that of the version before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum P4RuntimeVersion {
    /// 1.2 and 1.3.
    V1_3,
    /// 1.4, which added initial default actions and entries, platform properties, sizes of selectors and types of
    /// meters.
    V1_4,
    /// 1.5, which added action profiles without weights.
    #[default]
    V1_5,
}

impl FromStr for P4RuntimeVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.splitn(3, '.');
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let (major, minor, patch) = (numbers.next(), numbers.next(), numbers.next());
        match (major, minor) {
            (Some("1"), Some(minor)) if patch.is_none_or(is_number) => match minor {
                "2" | "3" => Ok(Self::V1_3),
                "4" => Ok(Self::V1_4),
                "5" => Ok(Self::V1_5),
                _ => Err(unknown(text)),
            },
            _ => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    format!("expected a version of P4Runtime from 1.2 to 1.5, found \"{text}\"")
}

impl fmt::Display for P4RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_3 => "1.3",
            Self::V1_4 => "1.4",
            Self::V1_5 => "1.5",
        })
    }
}

impl P4RuntimeVersion {
    /// The version in the environment variable; the newest version if the variable is not set or is empty.
    ///
    /// # Errors
    /// The variable has another text than a version.
    pub fn of_environment() -> Result<Self, String> {
        match std::env::var(P4RUNTIME_VERSION_VARIABLE) {
            Ok(text) if !text.is_empty() => {
                let version = text.parse();
                version.map_err(|error| format!("{P4RUNTIME_VERSION_VARIABLE}: {error}"))
            }
            _ => Ok(Self::default()),
        }
    }

    /// Removes from a P4Info the fields that are newer than this version.
    pub fn restrict(self, p4info: &mut P4Info) {
        if self < Self::V1_5 {
            for profile in &mut p4info.action_profiles {
                profile.weights_disallowed = false;
            }
        }
        if self < Self::V1_4 {
            if let Some(package) = &mut p4info.pkg_info {
                package.platform_properties = None;
            }
            for table in &mut p4info.tables {
                table.initial_default_action = None;
                table.has_initial_entries = false;
            }
            for profile in &mut p4info.action_profiles {
                profile.selector_size_semantics = None;
            }
            let of_arrays = p4info.meters.iter_mut().map(|meter| &mut meter.spec);
            let direct = p4info.direct_meters.iter_mut().map(|meter| &mut meter.spec);
            for spec in of_arrays.chain(direct).flatten() {
                spec.r#type = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::action_profile::{SelectorSizeSemantics, SumOfWeights};
    use crate::p4::config::v1::{
        ActionProfile, DirectMeter, MeterSpec, PkgInfo, PlatformProperties, Table, TableActionCall,
    };
    use crate::text_format;

    #[test]
    fn what_is_newer_is_left_out_and_the_rest_stays() {
        let mut p4info = P4Info {
            pkg_info: Some(PkgInfo {
                arch: "v1model".into(),
                platform_properties: Some(PlatformProperties::default()),
                ..PkgInfo::default()
            }),
            tables: vec![Table {
                size: 1024,
                is_const_table: true,
                initial_default_action: Some(TableActionCall::default()),
                has_initial_entries: true,
                ..Table::default()
            }],
            action_profiles: vec![ActionProfile {
                weights_disallowed: true,
                selector_size_semantics: Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
                ..ActionProfile::default()
            }],
            direct_meters: vec![DirectMeter {
                spec: Some(MeterSpec { unit: 1, r#type: 2 }),
                ..DirectMeter::default()
            }],
            ..P4Info::default()
        };
        let whole = p4info.clone();
        P4RuntimeVersion::V1_5.restrict(&mut p4info);
        assert_eq!(p4info, whole);
        P4RuntimeVersion::V1_4.restrict(&mut p4info);
        assert!(!p4info.action_profiles[0].weights_disallowed);
        assert_eq!(p4info.tables, whole.tables);
        P4RuntimeVersion::V1_3.restrict(&mut p4info);
        let text = text_format::print_p4info(&p4info);
        for newer in ["platform", "initial", "sum_of", "type:", "weights"] {
            assert!(!text.contains(newer), "{newer}: {text}");
        }
        for older in [
            "v1model",
            "size: 1024",
            "is_const_table: true",
            "unit: BYTES",
        ] {
            assert!(text.contains(older), "{older}: {text}");
        }
    }

    #[test]
    fn versions_are_read_with_and_without_their_last_number() {
        let read = |text: &str| text.parse::<P4RuntimeVersion>().ok();
        assert_eq!(read("1.3"), Some(P4RuntimeVersion::V1_3));
        assert_eq!(read("1.4.1"), Some(P4RuntimeVersion::V1_4));
        assert_eq!(read("1.5.0"), Some(P4RuntimeVersion::V1_5));
        for wrong in [
            "", "1", "1.", "1.6", "2.0", "1.4.", "1.4.x", "1.3-rc1", "v1.3",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
