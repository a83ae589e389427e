"""The package has a library for one kind of machine, so its wheel names that kind."""

from setuptools import Distribution, setup


class _WithLibrary(Distribution):
    def has_ext_modules(self) -> bool:
        """Not for any machine."""
        return True


setup(distclass=_WithLibrary)
