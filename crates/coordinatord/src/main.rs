//! `fakegpu-coordinator`: the daemon, started by hand, by `fakegpu run`, or by a program's first unique id.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use fakegpu_config::env::{LogLevel, Settings};
use fakegpu_config::{Address, Cluster};
use fakegpu_coordinatord::{Daemon, Setup};

/// The coordinator of a virtual GPU cluster.
///
/// Ranks find it by FAKEGPU_COORDINATOR_ADDR. It prints `fakegpu-coordinator listening on ADDRESS` when it is
/// ready, and writes its report on SHUTDOWN, SIGTERM and SIGINT. Its port also answers one-line text requests:
/// `echo PING | socat - UNIX-CONNECT:/tmp/fakegpu.sock`.
#[derive(Debug, Parser)]
#[command(name = "fakegpu-coordinator", version)]
struct Arguments {
    /// The kind of socket; by default an address that begins with / or @ is unix, host:port is tcp
    #[arg(long, value_parser = ["unix", "tcp"])]
    transport: Option<String>,

    /// Where to listen: a path, an abstract @name, or host:port (port 0 takes a free one)
    #[arg(long, env = "FAKEGPU_COORDINATOR_ADDR")]
    address: String,

    /// Write every event to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,

    /// End after this many milliseconds without a session
    #[arg(long, value_name = "MS")]
    linger_ms: Option<u64>,

    /// Write no report
    #[arg(long)]
    no_report: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("fakegpu-coordinator: {error:#}"));
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "a program's own error text")]
fn complain(text: &str) {
    eprintln!("{text}");
}

fn announce(address: &str) -> Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "fakegpu-coordinator listening on {address}")
        .and_then(|()| stdout.flush())
        .context("announcing the address")
}

fn run() -> Result<()> {
    let arguments = Arguments::parse();
    // The daemon's own address is a place to listen, not one to connect to: the environment's rules for ranks
    // (port 0 is no address, a transport needs an address) do not hold for it.
    let ours = |name: &str| {
        name == "FAKEGPU_COORDINATOR_ADDR"
            || name == "FAKEGPU_COORDINATOR_TRANSPORT"
            || name == "FAKEGPU_DIST_MODE"
    };
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !ours(name));
    let settings = Settings::from_vars(vars)?;
    if let Some(faults) = &settings.faults {
        // Running without them would report a health that was not asked for.
        bail!("FAKEGPU_FAULTS is `{faults}`, but this version has no fault rules yet: unset it");
    }
    start_log(settings.log);
    let transport = transport(&arguments)?;
    let daemon = Daemon::bind(transport, &arguments.address, setup(&arguments, &settings)?)?;
    announce(&daemon.address())?;
    daemon.run()
}

fn transport(arguments: &Arguments) -> Result<&'static str> {
    let address: Address =
        arguments.address.parse().with_context(|| format!("the address `{}`", arguments.address))?;
    let seen = address.transport().name();
    match arguments.transport.as_deref() {
        Some(asked) if asked != seen => {
            bail!("`{}` is a {seen} address, but --transport is {asked}", arguments.address)
        }
        _ => Ok(seen),
    }
}

fn setup(arguments: &Arguments, settings: &Settings) -> Result<Setup> {
    Ok(Setup {
        token: settings.token.as_ref().map(|token| token.reveal().to_owned()),
        cluster: cluster(settings)?,
        report_json: (!arguments.no_report).then(|| settings.report.json.clone().into()),
        report_markdown: (!arguments.no_report).then(|| settings.report.markdown.clone().into()),
        timeline_max: settings.report.max_operations,
        event_log: arguments.events.clone(),
        linger: arguments.linger_ms.map(Duration::from_millis),
        join_timeout: settings.timeouts.join_ms.map(Duration::from_millis),
        collective_timeout: settings.timeouts.collective_ms.map(Duration::from_millis),
        no_uring: settings.staging.no_uring,
    })
}

fn cluster(settings: &Settings) -> Result<Option<(String, Cluster)>> {
    if let Some(path) = &settings.cluster_config {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read FAKEGPU_CLUSTER_CONFIG `{path}`"))?;
        let text = String::from_utf8(text).with_context(|| format!("`{path}` is not UTF-8 text"))?;
        return Ok(Some((path.clone(), Cluster::parse(path, &text)?)));
    }
    match &settings.preset {
        Some(name) => {
            let cluster = Cluster::preset(name).with_context(|| {
                format!("FAKEGPU_PRESET is `{name}`; known presets: {}", Cluster::presets().join(", "))
            })?;
            Ok(Some((format!("preset {name}"), cluster)))
        }
        None => Ok(None),
    }
}

fn start_log(level: LogLevel) {
    let level = match level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Trace => tracing::Level::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false).init();
}
