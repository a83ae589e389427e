"""The switches that may stand in the middle of a study's star, by name."""

from lab.netns import Star

STARS: dict[str, type[Star]] = {"linux": Star}
