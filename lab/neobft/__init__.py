"""Measures NeoBFT's data plane: ordered multicast with authentication tags or with signatures.

The variant with tags is AOM-HM, the variant with signatures AOM-PK.
"""
