//! Reports of worked logs, and laws of the fold.
