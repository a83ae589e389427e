"""`python -m lab.media list` lists the traces, `make` makes them again."""

import argparse
import itertools

from lab.media import MediaTrace, names, read, read_file
from lab.media.make import RECIPES, make


def line(name: str, trace: MediaTrace) -> str:
    duration_s = trace.facts.duration_ns / 1e9
    bits = 8 * sum(packet.frame_len_bytes for packet in trace.packets)
    burst = max(
        len(list(frame)) for _, frame in itertools.groupby(trace.packets, lambda one: one.time_ns)
    )
    return (
        f"{name}: {trace.facts.codec}; {duration_s:g} s, {bits / duration_s / 1e6:.3f} Mbit/s, "
        f"{len(trace.packets) / duration_s:.1f} packets/s, at most {burst} at once"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.media", description=__doc__)
    parser.add_argument("command", choices=["list", "make"])
    parser.add_argument("name", nargs="*", help="of the traces to make; all without any")
    arguments = parser.parse_args()
    known = [recipe.name for recipe in RECIPES]
    for name in arguments.name:
        if name not in known:
            parser.error(f"expected one of {', '.join(known)}, found {name!r}")
    if arguments.command == "list":
        for name in names():
            print(line(name, read(name)))
        return
    for recipe in RECIPES:
        if not arguments.name or recipe.name in arguments.name:
            print(line(recipe.name, read_file(make(recipe))), flush=True)


if __name__ == "__main__":
    main()
