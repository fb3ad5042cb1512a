//! Text for people. A reader that has gone away (`fakegpu presets | head -1`) is no failure of ours.

use std::io::{self, IsTerminal, Write};

/// Writes to stdout.
pub(crate) fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// Writes bytes to stdout.
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).unwrap_or_default();
}

/// Whether stdout is a terminal that wants colours.
pub(crate) fn is_coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes to stderr.
pub(crate) fn err(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).unwrap_or_default();
}
