//! Tests the analysis of a small crate: arrows (uses of one file's items in another file), circles (dependency cycles),
//! layers and counts.

use std::{collections::BTreeSet, path::Path};

use structure::{Counts, Crate, Layers, LayersError, circles, counts_of_file};

const FILES: [(&str, &str); 7] = [
    ("LAYERS", "# lowest first\nids\ntables\nswitch # the door\n"),
    (
        "src/lib.rs",
        "//! use crate::nothing::Here;\nmod ids;\nmod switch;\nmod tables;\npub use switch::Switch;\n\
         pub use ids::Port;\npub type Nanos = u64;\n",
    ),
    (
        "src/ids.rs",
        "/* struct Comment; */\n/// A port.\npub struct Port(pub u16);\nimpl Port {\n\
         pub fn number(self) -> u16 {\n// The brace in the text is none: {\n\
         let text = \"crate::switch::Switch {\";\n\ntext.len() as u16\n}\n}\n\
         #[cfg(test)]\nmod tests {\nuse crate::switch::Switch;\nfn long() {\n}\n}\n",
    ),
    (
        "src/tables/mod.rs",
        "mod entry;\nmod index;\npub(crate) use entry::Entry;\n",
    ),
    (
        "src/tables/entry.rs",
        "use crate::Port;\nstruct Entry(Port, super::index::Index);\n",
    ),
    (
        "src/tables/index.rs",
        "use super::{Entry as X, entry::{self}};\nstruct Index(X);\n",
    ),
    (
        "src/switch.rs",
        "use crate::{tables, Nanos};\npub struct Switch(Nanos, tables::Entry);\n",
    ),
];

#[expect(clippy::unwrap_used, reason = "a test's folder")]
fn write(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[expect(clippy::unwrap_used, reason = "a test's folder")]
fn small_crate() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        write(folder.path(), name, text);
    }
    folder
}

#[test]
fn a_name_is_an_arrow_to_the_file_that_defines_it() {
    let folder = small_crate();
    let of = Crate::read(folder.path()).unwrap();
    let expected = [
        ("lib.rs", "ids.rs"),
        ("lib.rs", "switch.rs"),
        ("switch.rs", "lib.rs"),
        ("switch.rs", "tables/entry.rs"),
        ("tables/entry.rs", "ids.rs"),
        ("tables/entry.rs", "tables/index.rs"),
        ("tables/index.rs", "tables/entry.rs"),
        ("tables/mod.rs", "tables/entry.rs"),
    ];
    assert_eq!(of.arrows(), BTreeSet::from(expected));
    let expected = [
        BTreeSet::from(["lib.rs", "switch.rs"]),
        BTreeSet::from(["tables/entry.rs", "tables/index.rs"]),
    ];
    assert_eq!(circles(&of.arrows()), expected);
}

#[test]
fn an_arrow_in_a_macro_is_seen() {
    let folder = small_crate();
    let text = "pub fn of() -> u16 {\nmax!(1, crate::ids::Port(2).0)\n}\n";
    write(folder.path(), "src/tables/mod.rs", text);
    let of = Crate::read(folder.path()).unwrap();
    assert!(of.arrows().contains(&("tables/mod.rs", "ids.rs")));
}

#[test]
fn a_module_may_name_its_file() {
    let folder = small_crate();
    write(
        folder.path(),
        "src/tables/mod.rs",
        "#[path = \"../../other/entry.rs\"]\nmod entry;\n",
    );
    write(folder.path(), "other/entry.rs", "use crate::Port;\n");
    let of = Crate::read(folder.path()).unwrap();
    assert!(
        of.arrows()
            .contains(&("tables/../../other/entry.rs", "ids.rs"))
    );
}

#[test]
fn an_arrow_to_a_later_layer_runs_upwards() {
    let folder = small_crate();
    let of = Crate::read(folder.path()).unwrap();
    let upward = |of: &Crate| {
        let layers = Layers::read(folder.path(), of).unwrap();
        let upward = layers.upward(&of.arrows()).into_iter();
        upward
            .map(|(from, to)| format!("{from} {to}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(upward(&of), ["switch.rs lib.rs"]);
    write(folder.path(), "LAYERS", "tables\nids\nswitch\n");
    assert_eq!(upward(&of), ["switch.rs lib.rs", "tables/entry.rs ids.rs"]);
}

#[test]
fn to_pass_a_whole_module_on_is_an_arrow() {
    let folder = small_crate();
    let passes_on = |before: &str| {
        let (_, ids) = FILES[2];
        write(
            folder.path(),
            "src/ids.rs",
            &format!("{before}use crate::switch;\n{ids}"),
        );
        let of = Crate::read(folder.path()).unwrap();
        of.arrows().contains(&("ids.rs", "switch.rs"))
    };
    assert!(!passes_on(""));
    assert!(passes_on("pub "));
}

#[test]
fn a_layer_that_is_left_out_is_named() {
    let folder = small_crate();
    let of = Crate::read(folder.path()).unwrap();
    for (text, missing) in [("ids\nswitch\n", "tables"), ("ids tables\n", "switch")] {
        write(folder.path(), "LAYERS", text);
        let error = Layers::read(folder.path(), &of).unwrap_err();
        assert_eq!(error, LayersError::Incomplete(vec![missing.to_owned()]));
    }
}

#[test]
fn comments_and_blank_lines_are_no_code_and_tests_are_counted_apart() {
    let folder = small_crate();
    let counts = counts_of_file(&folder.path().join("src/ids.rs")).unwrap();
    let expected = Counts {
        lines: 17,
        code: 7,
        tests: 6,
        paths: 0,
        long_parameter_lists: 0,
    };
    assert_eq!(counts, expected);
    let text = "#[path = \"other.rs\"]\nmod other;\nfn many(\n    a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8,\n) {}\n";
    write(folder.path(), "src/many.rs", text);
    let counts = counts_of_file(&folder.path().join("src/many.rs")).unwrap();
    assert_eq!((counts.paths, counts.long_parameter_lists), (1, 1));
    assert_eq!((counts.code, counts.tests), (5, 0));
}

#[test]
fn a_folder_that_is_no_crate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Crate::read(folder.path()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("src/lib.rs"), "{error}");
}
