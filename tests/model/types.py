"""Types and their values (P4_16 1.2.5, sections 7 and 8).

A value is a Python bool, or an int that is negative if the P4 value is.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Bits:
    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"

    @property
    def low(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.width - 1)) - 1 if self.signed else (1 << self.width) - 1

    def wrap(self, number: int) -> int:
        """The value of this type that consists of the number's lowest bits."""
        bits = number & ((1 << self.width) - 1)
        return bits - (1 << self.width) if self.signed and bits >> (self.width - 1) else bits

    def saturate(self, number: int) -> int:
        return min(max(number, self.low), self.high)

    def bits(self, value: int) -> int:
        return value & ((1 << self.width) - 1)


@dataclass(frozen=True)
class Bool:
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class Enum:
    """An enum (section 7.2.1).

    If it has a base type, its members have numbers that programs can see. Otherwise programs cannot
    see the numbers of its members.
    """

    name: str
    members: tuple[tuple[str, int], ...]
    base: Bits | None

    def __str__(self) -> str:
        return self.name

    def declaration(self) -> str:
        if self.base is None:
            return f"enum {self.name} {{ {', '.join(name for name, _ in self.members)} }}\n"
        members = ", ".join(f"{name} = {number}" for name, number in self.members)
        return f"enum {self.base} {self.name} {{ {members} }}\n"


Type = Bits | Bool | Enum


def width(ty: Type) -> int:
    if isinstance(ty, Enum):
        assert ty.base is not None
        return ty.base.width
    return 1 if isinstance(ty, Bool) else ty.width


def to_bits(ty: Type, value: int) -> int:
    return int(value) & ((1 << width(ty)) - 1)


def from_bits(ty: Type, bits: int) -> int:
    if isinstance(ty, Bool):
        return bool(bits)
    base = ty.base if isinstance(ty, Enum) else ty
    assert base is not None
    return base.wrap(bits)


def typed(ty: Bits, value: int) -> str:
    text = f"{ty.width}{'s' if ty.signed else 'w'}{abs(value)}"
    return f"(-{text})" if value < 0 else text


def some_width(rng: Random, most: int = 128) -> int:
    """A random width. Small widths, powers of two and their neighbours are frequent."""
    common = [1, 2, 3, 7, 8, 8, 8, 9, 12, 15, 16, 16, 17, 24, 31, 32, 32]
    common += [33, 47, 48, 63, 64, 64, 65, 127, 128]
    pool = [number for number in common if number <= most]
    return rng.choice(pool) if rng.random() < 0.8 else rng.randint(1, min(most, 64))


def some_value(rng: Random, ty: Bits) -> int:
    """Returns a random value, often the least or the greatest, or near zero or a power of two."""
    kind = rng.random()
    if kind < 0.25:
        return ty.wrap(rng.choice([ty.low, ty.high, 0, 1, -1, ty.low + 1, ty.high - 1]))
    if kind < 0.5:
        return ty.wrap((1 << rng.randrange(ty.width)) + rng.randint(-1, 1))
    return ty.wrap(rng.getrandbits(ty.width))


def any_value(rng: Random, ty: Type) -> int:
    """Returns a random value of the type. For an enum, the value may have no name."""
    base = ty.base if isinstance(ty, Enum) else ty
    return some_value(rng, base) if isinstance(base, Bits) else rng.random() < 0.5


def near(rng: Random, ty: Bits, value: int) -> int:
    """The value or one next to it."""
    return ty.wrap(value + rng.choice([0, 0, 0, 1, -1]))
