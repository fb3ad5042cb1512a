//! Where this library's own lines go: standard error, one write a line, and nobody else's logger is touched.

use fakegpu_config::env::LogLevel;
use tracing::Level;

/// Starts logging at a level. `tracing`'s state belongs to this copy of the library alone, so a program's own
/// subscriber neither sees our lines nor is replaced.
pub(crate) fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .with_ansi(false);
    // A second start can only come from a second copy of this code; the first one's choice stays.
    if subscriber.try_init().is_err() {
        tracing::debug!("logging was started before");
    }
}
