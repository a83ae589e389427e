"""The Debian package: what Debian's tools say of it, and what an operator gets from it."""

import re
import subprocess
from pathlib import Path

from lab.process import REPOSITORY
from tests.packaging.debian_root import DebianRoot, run

PROGRAMS = ("reprise", "reprise-conference", "reprise-switch", "reprise-signer")
CONFIG = "/etc/reprise/reprise.toml"
CHECK = ("reprise", "serve", "--config", CONFIG, "--check-config")


def test_lintian_finds_nothing(package: Path) -> None:
    assert run(["lintian", "--allow-root", "--fail-on", "error,warning", package]) == ""


def test_the_programs_run_where_only_the_package_is(package: Path, root: DebianRoot) -> None:
    root.install(package)
    for program in PROGRAMS:
        assert root.run(program, "--version").startswith(program.removesuffix("-conference"))
    for name in ("p4c", "simple_switch", "simple_switch_grpc", "simple_switch_CLI"):
        assert root.run(f"/usr/lib/reprise/bmv2/{name}", "--help")
    root.run("reprise", "check", "/usr/share/reprise/p4/sfu.p4")
    secret = root.path / "etc/reprise/secret"
    assert re.fullmatch("[0-9a-f]{64}", secret.read_text())
    assert secret.stat().st_mode & 0o777 == 0o640
    assert root.run("stat", "--format=%U:%G", "/etc/reprise/secret").strip() == "root:reprise"
    assert root.run(*CHECK) == f"{CONFIG}: ok\n"
    root.run("setpriv", "--reuid=reprise", "--regid=reprise", "--init-groups", *CHECK)
    secret.unlink()
    assert "/etc/reprise/secret" in root.run(*CHECK, expected=1)


def test_an_upgrade_keeps_what_the_operator_changed(
    package: Path, next_package: Path, root: DebianRoot
) -> None:
    root.install(package)
    secret = root.text("/etc/reprise/secret")
    config = root.path / CONFIG.lstrip("/")
    config.write_text(config.read_text().replace("8080", "8081"))
    changed = config.read_text()
    root.install(next_package)
    assert "9999.0" in root.run("dpkg-query", "--show", "reprise")
    assert (root.text("/etc/reprise/secret"), root.text(CONFIG)) == (secret, changed)
    # An operator who signs with keys has removed the secret. The package must not make it again.
    (root.path / "etc/reprise/secret").unlink()
    root.run("dpkg", "--remove", "reprise")
    root.install(package)
    assert not (root.path / "etc/reprise/secret").exists()


def test_a_purge_leaves_the_user_and_nothing_else(package: Path, root: DebianRoot) -> None:
    before = root.files()
    root.install(package)
    added = root.files() - before
    assert {CONFIG, "/etc/reprise/secret", "/usr/bin/reprise"} <= added
    state = root.path / "var/lib/reprise"
    state.mkdir()
    (state / "store").write_text("conferences")
    root.run("dpkg", "--remove", "reprise")
    assert state.exists()
    assert CONFIG in root.files()
    root.run("dpkg", "--purge", "reprise")
    # The lines about the user `reprise` are in files that existed before. Backup copies of these
    # files, which adduser makes, have names that end with a dash.
    left = {path for path in root.files() - before if not re.fullmatch("/etc/[a-z]+-", path)}
    assert left == set()
    assert "reprise" in root.run("getent", "passwd", "reprise")


def test_a_secret_that_was_not_finished_is_made_again(package: Path, root: DebianRoot) -> None:
    # This is the state after the package's script was killed: the files are unpacked, the secret is
    # half written, and nothing is configured.
    copy = root.path / "tmp" / package.name
    copy.write_bytes(package.read_bytes())
    root.run("dpkg", "--unpack", f"/tmp/{package.name}")
    (root.path / "etc/reprise/secret.abc123").write_text("half")
    assert not (root.path / "etc/reprise/secret").exists()
    root.run("dpkg", "--configure", "reprise")
    assert len(root.text("/etc/reprise/secret")) == 64
    root.run("dpkg", "--purge", "reprise")
    assert not (root.path / "etc/reprise").exists()


def test_what_prometheus_and_grafana_read_is_where_the_page_says(contents: Path) -> None:
    page = (REPOSITORY / "docs/operate.md").read_text()
    folder = "/usr/share/reprise/monitoring"
    assert f"`{folder}`" in page
    installed = {path.name: path.read_bytes() for path in (contents / folder[1:]).iterdir()}
    ours = REPOSITORY / "packaging/monitoring"
    names = ("prometheus.yml", "rules.yml", "dashboard.json")
    assert installed == {name: (ours / name).read_bytes() for name in names}
    assert all(f"| `{name}` |" in page for name in names)


def test_every_page_renders_without_a_warning(contents: Path) -> None:
    pages = sorted((contents / "usr/share/man/man1").glob("*.1.gz"))
    names = {page.name.removesuffix(".1.gz") for page in pages}
    assert {"reprise", "reprise-serve", "reprise-group-add", *PROGRAMS} <= names
    for page in pages:
        done = subprocess.run(
            ["man", "--warnings=w", "--encoding=utf8", "--local-file", page],
            env={"MANROFFSEQ": "", "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", f"{page.name}: {done.stderr}"
        assert "SYNOPSIS" in done.stdout


def test_bash_completes_commands_options_and_their_values(contents: Path) -> None:
    folder = contents / "usr/share/bash-completion/completions"
    for program, words, expected in (
        ("reprise", ["reprise", "ser"], {"serve"}),
        ("reprise", ["reprise", "serve", "--che"], {"--check-config"}),
        ("reprise", ["reprise", "serve", "--take"], set()),
        ("reprise", ["reprise", "doctor", "--serv"], {"--service"}),
        ("reprise", ["reprise", "group", "a"], {"add"}),
        ("reprise-switch", ["reprise-switch", "--engine", "ker"], {"kernel"}),
        ("reprise-signer", ["reprise-signer", "k"], {"key"}),
    ):
        script = f"""
            set -u
            source {folder / program}
            COMP_WORDS=({" ".join(words)})
            COMP_CWORD={len(words) - 1}
            words=$(complete -p {program})
            words=${{words#* -F }}
            function=${{words%% *}}
            "$function" {program} {words[-1]} {words[-2]}
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        found = run(["bash", "--norc", "-c", script]).split()
        assert set(found) == expected, f"{words}: {found}"


def test_the_units_are_what_systemd_expects(package: Path, root: DebianRoot) -> None:
    root.install(package)
    units = ["/lib/systemd/system/reprise.service", "/lib/systemd/system/reprise-switch.service"]
    root.run("systemd-analyze", "verify", "--man=no", *units)
    drop_in = root.path / "etc/systemd/system/reprise-switch.service.d"
    drop_in.mkdir(parents=True)
    (drop_in / "xdp.conf").write_bytes(
        (root.path / "usr/share/doc/reprise/examples/reprise-switch-xdp.conf").read_bytes()
    )
    root.run("systemd-analyze", "verify", "--man=no", *units)


def test_the_exposure_of_the_units_is_what_the_page_says(package: Path, root: DebianRoot) -> None:
    root.install(package)

    def exposure(unit: str) -> str:
        said = root.run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
        found = re.search(rf"Overall exposure level for {re.escape(unit)}: ([0-9.]+)", said)
        assert found, said
        return found[1]

    page = (REPOSITORY / "docs/operate.md").read_text()
    install = page.split("## Install")[1].split("\n## ")[0]
    service, switch = exposure("reprise.service"), exposure("reprise-switch.service")
    drop_in = root.path / "etc/systemd/system/reprise-switch.service.d"
    drop_in.mkdir(parents=True)
    example = root.text("/usr/share/doc/reprise/examples/reprise-switch-xdp.conf")
    (drop_in / "xdp.conf").write_text(example)
    with_xdp = exposure("reprise-switch.service")
    assert re.findall(r"\b[0-9]\.[0-9]\b", install) == [service, switch, with_xdp]
