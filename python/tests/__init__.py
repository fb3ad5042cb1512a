"""Tests of the backend, by plain unittest: `python -m unittest discover -s tests -t .` in this folder's parent.

The interpreter needs torch. FAKEGPU_LAYOUT names the built layout; without it, `target/fakegpu` of this repository.
"""
