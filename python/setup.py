"""Makes the wheel one for this platform where the programs and libraries lie in the package (`cargo xtask wheel`)."""

from pathlib import Path

from setuptools import setup
from setuptools.dist import Distribution

HAS_PROGRAMS = (Path(__file__).resolve().parent / "fakegpu" / "bin").is_dir()


class Platform(Distribution):
    """A package with machine code."""

    def has_ext_modules(self) -> bool:
        return HAS_PROGRAMS


try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """Code for this machine, for any Python."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return "py3", "none", platform


setup(distclass=Platform, cmdclass={"bdist_wheel": Wheel})
