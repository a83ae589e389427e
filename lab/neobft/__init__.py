"""Measures NeoBFT's data plane, ordered multicast with tags (AOM-HM) or signatures (AOM-PK)."""
