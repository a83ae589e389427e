"""Verifies ECDSA on secp256k1 by SEC 1 (4.1.4): slow, and unrelated to the signer's code."""

from functools import reduce

P = 2**256 - 2**32 - 977
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
BASE = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)

Point = tuple[int, int] | None
"""Affine coordinates; None is the point at infinity."""


def point_of(compressed: bytes) -> Point:
    """Decodes a public key of 33 bytes."""
    x = int.from_bytes(compressed[1:], "big")
    y = pow(x**3 + 7, (P + 1) // 4, P)
    if (y * y - x**3 - 7) % P != 0:
        raise ValueError(f"expected a point of secp256k1, found {compressed.hex()}")
    return x, y if y % 2 == compressed[0] % 2 else P - y


def verify(key: Point, digest: bytes, signature: bytes) -> bool:
    """Whether `signature` (r and s, 32 bytes each) is valid for a key and a digest of 32 bytes."""
    r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    if not (0 < r < ORDER and 0 < s < ORDER):
        return False
    inverse = pow(s, -1, ORDER)
    of_base = int.from_bytes(digest, "big") * inverse % ORDER
    found = _sum(_times(of_base, BASE), _times(r * inverse % ORDER, key))
    return found is not None and found[0] % ORDER == r


def _times(factor: int, point: Point) -> Point:
    def step(so_far: Point, bit: str) -> Point:
        doubled = _sum(so_far, so_far)
        return _sum(doubled, point) if bit == "1" else doubled

    return reduce(step, f"{factor:b}", None)


def _sum(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return b if a is None else a
    (xa, ya), (xb, yb) = a, b
    if xa == xb and (ya + yb) % P == 0:
        return None
    slope = 3 * xa * xa * pow(2 * ya, -1, P) if a == b else (yb - ya) * pow(xb - xa, -1, P)
    x = (slope * slope - xa - xb) % P
    return x, (slope * (xa - x) - ya) % P
