#!/bin/sh
# Makes descriptor.bin of this crate and of gnmi-proto anew from the .proto files of P4Runtime and gNMI inside the Python
# package finsy, and from our own proto/. With --check, it changes nothing and fails if a committed file is not current.
# It needs cargo and pip, but no protoc. If the generator is built already, REPRISE_GENERATE may hold its path.
set -eu

finsy_version=0.30.0
finsy_sha256=29f5194b40ac1c19caacbc4a138b3208b1efa1a6d930c51bccd834d273d22097

usage() {
    echo "usage: $0 [--check]" >&2
    exit 2
}

check=false
[ $# -le 1 ] || usage
case "${1-}" in
    '') ;;
    --check) check=true ;;
    *) usage ;;
esac

crate_dir=$(cd "$(dirname "$0")" && pwd)
work_dir=$(mktemp -d)
trap 'rm -rf "$work_dir"' EXIT

python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --dest "$work_dir" "finsy==$finsy_version"
wheel="$work_dir/finsy-$finsy_version-py3-none-any.whl"
echo "$finsy_sha256  $wheel" | sha256sum --check --quiet
python3 -m zipfile -e "$wheel" "$work_dir/wheel"

generate() {
    if [ -n "${REPRISE_GENERATE-}" ]; then
        "$REPRISE_GENERATE" "$@"
    else
        cargo run --quiet --manifest-path "$crate_dir/generate/Cargo.toml" -- "$@"
    fi
}
definitions="$work_dir/wheel/finsy/proto"
generate p4runtime "$work_dir/p4runtime-proto" "$definitions" "$crate_dir/proto"
generate gnmi "$work_dir/gnmi-proto" "$definitions"

for name in p4runtime-proto gnmi-proto; do
    committed="$crate_dir/../$name/descriptor.bin"
    if ! $check; then
        cp "$work_dir/$name" "$committed"
    elif cmp "$work_dir/$name" "$committed"; then
        echo "crates/formats/$name/descriptor.bin is current"
    else
        echo "crates/formats/$name/descriptor.bin is not current: run crates/formats/p4runtime-proto/regenerate.sh" >&2
        exit 1
    fi
done
