"""What scripts/structure counts, on a small crate whose arrows are known."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/structure"

FILES = {
    "LAYERS": "# lowest first\nids\ntables\nswitch # the door\n",
    "src/lib.rs": """
        //! use crate::nothing::Here;
        mod ids;
        mod switch;
        mod tables;
        pub use switch::Switch;
        pub use ids::Port;
        pub type Nanos = u64;
    """,
    "src/ids.rs": """
        /* struct Comment; */
        pub struct Port(pub u16);
        impl Port {
            pub fn number(self) -> u16 {
                // The brace in the text is none: {
                let text = "crate::switch::Switch {";

                text.len() as u16
            }
        }
        #[cfg(test)]
        mod tests {
            use crate::switch::Switch;
            fn long() {
            }
        }
    """,
    "src/tables/mod.rs": "mod entry;\nmod index;\npub(crate) use entry::Entry;\n",
    "src/tables/entry.rs": "use crate::Port;\nstruct Entry(Port, super::index::Index);\n",
    "src/tables/index.rs": "use super::{Entry as X, entry::{self}};\nstruct Index(X<'a, 'b>);\n",
    "src/switch.rs": "use crate::{tables, Nanos};\npub struct Switch(Nanos, tables::Entry);\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments], check=False, capture_output=True, text=True, timeout=120
    )


def measured(folder: Path) -> dict[str, Any]:
    done = run("--json", folder)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_a_name_is_an_arrow_to_the_file_that_defines_it(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    found = measured(tmp_path)
    # tables to ids, switch to tables and to lib.rs, lib.rs to switch and ids.
    assert found["arrows"] == 5
    assert found["circles"] == [["lib.rs", "switch.rs"], ["tables/entry.rs", "tables/index.rs"]]


def test_an_arrow_to_a_later_layer_runs_upwards(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    assert measured(tmp_path)["upward"] == ["switch -> lib"]
    write(tmp_path, {"LAYERS": "tables\nids\nswitch\n"})
    assert measured(tmp_path)["upward"] == ["switch -> lib", "tables -> ids"]


def test_to_pass_a_whole_module_on_is_an_arrow(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    ids = tmp_path / "src/ids.rs"
    ids.write_text("use crate::switch;\n" + ids.read_text())
    assert "ids -> switch" not in measured(tmp_path)["upward"]
    ids.write_text("pub " + ids.read_text())
    assert "ids -> switch" in measured(tmp_path)["upward"]


def test_comments_blank_lines_and_tests_are_no_code(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    found = measured(tmp_path)
    assert found["files"] == 6
    assert found["code_lines"] == 6 + 7 + 3 + 2 + 2 + 2
    assert (found["functions"], found["function_lines_median"]) == (1, 4)


@pytest.mark.parametrize("layers", ["ids\nswitch\n", "ids tables\n"])
def test_a_layer_that_is_left_out_is_told(tmp_path: Path, layers: str) -> None:
    write(tmp_path, FILES | {"LAYERS": layers})
    done = run(tmp_path)
    assert done.returncode == 1
    assert "LAYERS does not name" in done.stderr


def test_a_folder_that_is_no_crate_is_told(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 1
    assert "has no src/lib.rs" in done.stderr


def test_without_layers_no_arrow_runs_upwards_or_down(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "LAYERS").unlink()
    assert measured(tmp_path)["upward"] is None
    assert "| 6 | 22 | 5 | - | 2 2 | 4 |" in run(tmp_path).stdout
