//! Where this library's own lines go: standard error, one write a line, and nobody else's logger is touched.

use std::fmt;

use fakegpu_config::env::LogLevel;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Lines as people grep for them: whose they are, how bad it is, and the sentence.
struct Named;

impl<S, N> FormatEvent<S, N> for Named
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(writer, "fakegpu: {level}: ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

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
        .with_ansi(false)
        .event_format(Named);
    // A second start can only come from a second copy of this code; the first one's choice stays.
    if subscriber.try_init().is_err() {
        tracing::debug!("logging was started before");
    }
}
