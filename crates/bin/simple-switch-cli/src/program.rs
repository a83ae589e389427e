//! The parts of a P4 program that commands need, from its BMv2 JSON: names, types, widths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Maximum size of a program file: JSON with 100,000 entries has 60 million bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchType {
    Exact,
    Lpm,
    /// The match type of ternary fields, and of optional fields, whose mask is all ones or all zeros.
    Ternary,
    Valid,
    Range,
}

impl MatchType {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "exact" => Self::Exact,
            "lpm" => Self::Lpm,
            "ternary" | "optional" => Self::Ternary,
            "valid" => Self::Valid,
            "range" => Self::Range,
            _ => return None,
        })
    }

    /// The match type's name in BMv2.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lpm => "lpm",
            Self::Ternary => "ternary",
            Self::Valid => "valid",
            Self::Range => "range",
        }
    }
}

/// Where a table's entries store their actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableType {
    Simple,
    /// In an action profile without groups.
    Indirect,
    /// In an action profile with groups.
    IndirectWithSelector,
}

#[derive(Debug, Clone)]
pub struct KeyField {
    pub name: String,
    pub match_type: MatchType,
    pub bits: u32,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub match_type: MatchType,
    pub of: TableType,
    pub has_timeouts: bool,
    pub key: Vec<KeyField>,
    pub actions: BTreeSet<String>,
    pub profile: Option<String>,
}

impl Table {
    pub fn has_priorities(&self) -> bool {
        matches!(self.match_type, MatchType::Ternary | MatchType::Range)
    }
}

#[derive(Debug, Clone)]
pub struct Action {
    pub name: String,
    /// Names and widths in bits.
    pub params: Vec<(String, u32)>,
}

#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub name: String,
    pub has_groups: bool,
    pub actions: BTreeSet<String>,
    pub n_tables: usize,
}

#[derive(Debug, Clone)]
pub struct Meter {
    pub name: String,
    /// Table of a direct meter.
    pub table: Option<String>,
    pub n_rates: usize,
}

#[derive(Debug, Clone)]
pub struct Counter {
    pub name: String,
    /// Table of a direct counter.
    pub table: Option<String>,
}

#[derive(Debug, Clone)]
pub struct ValueSet {
    pub name: String,
    pub bits: u32,
}

/// Objects of one kind, by full name and by every suffix that is unique among them.
#[derive(Debug, Clone)]
pub struct Named<T> {
    all: BTreeMap<String, T>,
    by_suffix: BTreeMap<String, String>,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        let (all, by_suffix) = (BTreeMap::new(), BTreeMap::new());
        Self { all, by_suffix }
    }
}

impl<T> Named<T> {
    fn index(&mut self) {
        let mut found: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for name in self.all.keys() {
            let dots = name.match_indices('.').map(|(at, _)| at + 1);
            for at in dots.chain([0]) {
                found.entry(name[at..].to_owned()).or_default().push(name);
            }
        }
        let unique = found.into_iter().filter(|(_, names)| names.len() == 1);
        self.by_suffix = unique
            .map(|(suffix, names)| (suffix, names[0].clone()))
            .collect();
    }

    /// Looks up a full name or a unique suffix.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.all.get(self.by_suffix.get(name)?)
    }

    pub fn full(&self, name: &str) -> Option<&T> {
        self.all.get(name)
    }

    /// The objects, ordered by name.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.all.values()
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.all.keys()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Program {
    pub tables: Named<Table>,
    pub profiles: Named<Profile>,
    pub actions: Named<Action>,
    pub meters: Named<Meter>,
    pub counters: Named<Counter>,
    /// Commands need only the names of registers.
    pub registers: Named<String>,
    pub value_sets: Named<ValueSet>,
    /// Names and widths in bits of custom CRCs.
    pub crcs: BTreeMap<String, u32>,
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

fn text(of: &Value, name: &str) -> Result<String, String> {
    let found = of[name].as_str();
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("expected the text \"{name}\", found {}", of[name]))
}

fn number(of: &Value, name: &str) -> Result<u32, String> {
    let found = of[name].as_u64().and_then(|it| u32::try_from(it).ok());
    found.ok_or_else(|| format!("expected the number \"{name}\", found {}", of[name]))
}

fn match_type(of: &Value) -> Result<MatchType, String> {
    let name = text(of, "match_type")?;
    MatchType::of(&name).ok_or_else(|| format!("there is no match type \"{name}\""))
}

fn binding(of: &Value) -> Result<Option<String>, String> {
    match of["is_direct"].as_bool() {
        Some(true) => text(of, "binding").map(Some),
        _ => Ok(None),
    }
}

impl Program {
    /// # Errors
    /// The bytes are not the BMv2 JSON of a program; the text says where they are wrong.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let json: Value = bmv2_json::from_slice(json).map_err(|error| error.to_string())?;
        Self::new(&json)
    }

    /// # Errors
    /// The value is not the BMv2 JSON of a program; the text says where it is wrong.
    pub fn new(json: &Value) -> Result<Self, String> {
        let mut program = Self::default();
        for it in list(json, "actions") {
            let action = action(it).map_err(|error| format!("an action: {error}"))?;
            // Some actions occur twice, with the same parameters.
            program.actions.all.insert(action.name.clone(), action);
        }
        for pipeline in list(json, "pipelines") {
            program.add_pipeline(pipeline, json)?;
        }
        for it in list(json, "meter_arrays") {
            let (name, n_rates) = (text(it, "name")?, number(it, "rate_count")? as usize);
            let table = binding(it)?;
            let meter = Meter {
                name: name.clone(),
                table,
                n_rates,
            };
            program.meters.all.insert(name, meter);
        }
        for it in list(json, "counter_arrays") {
            let (name, table) = (text(it, "name")?, binding(it)?);
            let counter = Counter {
                name: name.clone(),
                table,
            };
            program.counters.all.insert(name, counter);
        }
        for it in list(json, "register_arrays") {
            let name = text(it, "name")?;
            program.registers.all.insert(name.clone(), name);
        }
        for it in list(json, "parse_vsets") {
            let (name, bits) = (text(it, "name")?, number(it, "compressed_bitwidth")?);
            let set = ValueSet {
                name: name.clone(),
                bits,
            };
            program.value_sets.all.insert(name, set);
        }
        for it in list(json, "calculations") {
            let bits = match it["algo"].as_str() {
                Some("crc16_custom") => 16,
                Some("crc32_custom") => 32,
                _ => continue,
            };
            program.crcs.insert(text(it, "name")?, bits);
        }
        program.index();
        Ok(program)
    }

    fn index(&mut self) {
        self.tables.index();
        self.profiles.index();
        self.actions.index();
        self.meters.index();
        self.counters.index();
        self.registers.index();
        self.value_sets.index();
    }

    fn add_pipeline(&mut self, pipeline: &Value, json: &Value) -> Result<(), String> {
        for it in list(pipeline, "action_profiles") {
            let profile = Profile {
                name: text(it, "name")?,
                has_groups: !it["selector"].is_null(),
                ..Profile::default()
            };
            self.profiles.all.insert(profile.name.clone(), profile);
        }
        for it in list(pipeline, "tables") {
            let table =
                table(it, json).map_err(|error| format!("table {}: {error}", it["name"]))?;
            if let Some(name) = &table.profile {
                let profile = self.profiles.all.entry(name.clone());
                // Older JSON does not list action profiles: only the table names them.
                let profile = profile.or_insert_with(|| Profile {
                    name: name.clone(),
                    has_groups: !it["selector"].is_null(),
                    ..Profile::default()
                });
                profile.actions.extend(table.actions.iter().cloned());
                profile.n_tables += 1;
            }
            self.tables.all.insert(table.name.clone(), table);
        }
        Ok(())
    }
}

fn action(of: &Value) -> Result<Action, String> {
    let params = list(of, "runtime_data");
    let params = params.map(|it| Ok((text(it, "name")?, number(it, "bitwidth")?)));
    Ok(Action {
        name: text(of, "name")?,
        params: params.collect::<Result<_, String>>()?,
    })
}

fn table(of: &Value, json: &Value) -> Result<Table, String> {
    let kind = match text(of, "type")?.as_str() {
        "indirect" => TableType::Indirect,
        "indirect_ws" => TableType::IndirectWithSelector,
        _ => TableType::Simple,
    };
    let profile = match kind {
        TableType::Simple => None,
        _ => {
            let name = of["action_profile"].as_str();
            let name = name.or(of["act_prof_name"].as_str());
            let name = name.ok_or("expected the name of its action profile")?;
            Some(name.to_owned())
        }
    };
    let key = list(of, "key").map(|it| key_field(it, json));
    let actions = list(of, "actions").filter_map(Value::as_str);
    Ok(Table {
        name: text(of, "name")?,
        match_type: match_type(of)?,
        of: kind,
        has_timeouts: of["support_timeout"].as_bool() == Some(true),
        key: key.collect::<Result<_, _>>()?,
        actions: actions.map(str::to_owned).collect(),
        profile,
    })
}

fn key_field(of: &Value, json: &Value) -> Result<KeyField, String> {
    let (match_type, target) = (match_type(of)?, &of["target"]);
    if match_type == MatchType::Valid {
        let header = target.as_str().or(target[0].as_str()).unwrap_or_default();
        let name = format!("{header}_valid");
        return Ok(KeyField {
            name,
            match_type,
            bits: 1,
        });
    }
    let (Some(header), Some(field)) = (target[0].as_str(), target[1].as_str()) else {
        return Err(format!("expected a header's field as key, found {target}"));
    };
    let (name, bits) = match field {
        "$valid$" => (format!("{header}_valid"), 1),
        field => {
            let bits = width(json, header, field);
            let bits = bits.ok_or_else(|| format!("no field {header}.{field} is declared"))?;
            (format!("{header}.{field}"), bits)
        }
    };
    Ok(KeyField {
        name,
        match_type,
        bits,
    })
}

fn width(json: &Value, header: &str, field: &str) -> Option<u32> {
    let of = list(json, "headers").find(|it| it["name"] == header)?;
    let of = list(json, "header_types").find(|it| it["name"] == of["header_type"])?;
    let field = list(of, "fields").find(|it| it[0] == field)?;
    u32::try_from(field[1].as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

    use super::*;
    use serde_json::json;

    fn with_actions(names: &[&str]) -> Program {
        let actions = names
            .iter()
            .map(|name| json!({"name": name, "id": 0, "runtime_data": []}));
        let json = json!({"actions": actions.collect::<Vec<_>>()});
        Program::from_json(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_end_of_a_name_means_an_object_if_no_other_has_it() {
        let program = with_actions(&["A.drop", "B.drop", "B.c.forward", "NoAction"]);
        let found = |name| program.actions.get(name).map(|it| it.name.as_str());
        assert_eq!(found("A.drop"), Some("A.drop"));
        assert_eq!(found("drop"), None);
        assert_eq!(found("forward"), Some("B.c.forward"));
        assert_eq!(found("c.forward"), Some("B.c.forward"));
        assert_eq!(found("orward"), None);
        assert_eq!(found("NoAction"), Some("NoAction"));
    }

    #[test]
    fn a_name_that_is_also_the_end_of_another_means_neither() {
        let program = with_actions(&["drop", "A.drop"]);
        assert!(program.actions.get("drop").is_none());
        assert!(program.actions.get("A.drop").is_some());
    }

    #[test]
    fn an_expression_may_be_as_deep_as_a_switch_takes_it() {
        let deep = "[".repeat(990) + &"]".repeat(990);
        let text = format!(
            r#"{{"actions": [{{"name": "a", "runtime_data": [], "primitives": {deep}}}]}}"#
        );
        let program = Program::from_json(text.as_bytes()).unwrap();
        assert!(program.actions.get("a").is_some());
    }

    #[test]
    fn what_is_no_program_is_reported_with_its_place() {
        let wrong = |json: Value| Program::from_json(json.to_string().as_bytes()).unwrap_err();
        assert!(Program::from_json(b"{").unwrap_err().contains("line 1"));
        let deep = "[".repeat(1_001) + &"]".repeat(1_001);
        let found = Program::from_json(deep.as_bytes()).unwrap_err();
        assert!(found.contains("1001 deep, expected 1000"), "{found}");
        let table = json!({"name": "t", "type": "simple", "match_type": "exact",
            "key": [{"match_type": "exact", "target": ["h", "f"]}], "actions": []});
        let found = wrong(json!({"pipelines": [{"tables": [table]}]}));
        assert_eq!(found, "table \"t\": no field h.f is declared");
    }
}
