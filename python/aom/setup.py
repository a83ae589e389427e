"""Builds a wheel for one platform, since the package contains a library for this platform."""

from setuptools import Distribution, setup


class _WithLibrary(Distribution):
    def has_ext_modules(self) -> bool:
        """Returns True, because the wheel is not for all platforms."""
        return True


setup(distclass=_WithLibrary)
