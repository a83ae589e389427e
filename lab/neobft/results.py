"""The contents of the study's files. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NeobftRow:
    """neobft.csv: the capacity of one contestant, for a number of receivers."""

    kind: str
    """`tagged` (AOM-HM), `signed` (AOM-PK) or `plain`, multicast of as many copies."""
    receivers: int
    packets_per_request: int
    """That leave the switch: receivers times shards."""
    turns: int
    frame_bytes: int
    requests_per_s_peak: float
    copies_per_s_peak: float
    requests_per_s_lossless: float
    of_plain: float
    """Its peak beside plain multicast of as many copies: the median of the turns' ratios."""
    signed_share: float
    """Of the copies at its peak, those with a signature; 0 where nobody signs."""


@dataclass(frozen=True, slots=True)
class DelayRow:
    """neobft-delays.csv: a quantile of one variant's delay under one load."""

    kind: str
    load_pct: int
    """Of the highest rate without loss."""
    requests_per_s: float
    samples: int
    quantile_pct: float
    delay_us: float


@dataclass(frozen=True, slots=True)
class DistributionRow:
    """neobft-distributions.csv: so many samples of that delay; from these come the CDFs."""

    kind: str
    load_pct: int
    delay_us: float
    count: int


@dataclass(frozen=True, slots=True)
class PassRow:
    """neobft-passes.csv: the cost of a request inside the switch, without ports."""

    engine: str
    what: str
    """`tags` (no copies), `whole`, or `plain` multicast of as many copies."""
    receivers: int
    copies: int
    ns_per_request: float


@dataclass(frozen=True, slots=True)
class SignatureRow:
    """neobft-signatures.csv: one turn of the signer, in memory."""

    turn: int
    pooled_per_s: float
    fresh_per_s: float
