//! One run: a cluster, its coordinator, its ranks, and what became of them.

pub(crate) mod coordinator;
pub(crate) mod group;
mod output;
mod plan;
mod shape;
pub(crate) mod supervise;
mod table;
pub(crate) mod warden;

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fakegpu_config::Address;
use fakegpu_units::NodeIndex;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::arguments::{DistMode, RunArguments, Transport, word};
use crate::{check, find, say, speak};
use coordinator::{Coordinator, Start};
use group::Group;
use output::Printer;
use plan::{Job, RankPlan, Variables, Way};
use shape::{Host, Shape};
use supervise::{Audience, Outcome, Patience, Signals, Supervisor};
use warden::{Mercy, Warden};

/// How long host 0 waits for the other hosts' ranks, and they for host 0's coordinator.
const HOSTS_PATIENCE: Duration = Duration::from_secs(60);

/// How often something on another host is asked for.
const HOSTS_PERIOD: Duration = Duration::from_millis(200);

/// Runs the program as the flags say; the exit code.
pub(crate) fn run(arguments: &RunArguments) -> Result<u8> {
    let setting = Setting::resolve(arguments)?;
    setting.check()?;
    let mut warden = Warden::start()?;
    let (coordinator, way) = setting.meet_coordinator(&mut warden)?;
    // Until here a signal ends this process, and the warden the rest.
    let mut signals = Signals::register().context("registering for signals")?;
    let outcome = setting.run_ranks(way.clone(), &mut signals, &mut warden)?;
    if let Some(coordinator) = coordinator {
        if let Some(way) = way.filter(|_| setting.host.is_some() && outcome.interrupted.is_none()) {
            wait_for_other_hosts(&way, &mut signals);
        }
        setting.close(coordinator, &mut warden);
    }
    say::out(&format!("{outcome}\n"));
    setting.say_where_the_report_is();
    Ok(outcome.exit_code())
}

/// Runs a launcher, such as `torchrun` or `mpirun`, whose processes become the ranks; the exit code.
pub(crate) fn exec(arguments: &RunArguments) -> Result<u8> {
    let setting = Setting::resolve(arguments)?;
    setting.check()?;
    let mut warden = Warden::start()?;
    let (coordinator, way) = setting.meet_coordinator(&mut warden)?;
    let mut signals = Signals::register().context("registering for signals")?;
    let outcome = setting.run_launcher(way, &mut signals, &mut warden)?;
    if let Some(coordinator) = coordinator {
        setting.close(coordinator, &mut warden);
    }
    setting.say_where_the_report_is();
    Ok(outcome.exit_code())
}

/// A run's flags, understood, with everything found that it needs.
struct Setting<'a> {
    arguments: &'a RunArguments,
    host: Option<Host>,
    shape: Shape,
    program: PathBuf,
    library: PathBuf,
    /// CUDA's libraries, where ranks have no real ones.
    companions: Vec<PathBuf>,
    /// The report's folder.
    folder: String,
    base: Variables,
    master: (String, u16),
}

impl<'a> Setting<'a> {
    fn resolve(arguments: &'a RunArguments) -> Result<Self> {
        let host = Host::from_flags(&arguments.hosts)?;
        let hosts = host.as_ref().map(|host| host.count);
        let shape = Shape::resolve(&arguments.shape, hosts, |name| std::env::var_os(name))?;
        let [name, ..] = &arguments.program[..] else { bail!("there is no program to run") };
        let program = find::program(name)?;
        let library = find::library()?;
        let base = base(arguments)?;
        let master = match &host {
            Some(host) => host.master.clone(),
            None => ("127.0.0.1".to_owned(), free_port()?),
        };
        let folder = folder(&arguments.report)?;
        let companions = match arguments.dist_mode {
            DistMode::Simulate => find::companions(&library),
            _ => Vec::new(),
        };
        Ok(Self { arguments, host, shape, program, library, companions, folder, base, master })
    }

    /// Refuses an environment that the ranks would refuse, before anything is started.
    fn check(&self) -> Result<()> {
        let placeholder =
            Way { address: Address::Unix("@fakegpu".to_owned()), token: "unknown yet".to_owned() };
        let way = self.needs_coordinator().then_some(placeholder);
        if let Some(first) = self.job(way).ranks()?.into_iter().next() {
            check::settings(first.variables).context("the ranks' environment has mistakes")?;
        }
        let file = self.path("cluster.yaml");
        fs::write(&file, self.shape.cluster.to_yaml()).with_context(|| format!("cannot write `{file}`"))?;
        // An old report must not pass for this run's.
        for name in ["cluster_report.json", "cluster_report.md"] {
            drop(fs::remove_file(self.path(name)));
        }
        Ok(())
    }

    fn needs_coordinator(&self) -> bool {
        matches!(self.arguments.dist_mode, DistMode::Simulate | DistMode::Proxy)
    }

    fn runs_coordinator(&self) -> bool {
        self.needs_coordinator() && self.host.as_ref().is_none_or(|host| host.node == NodeIndex(0))
    }

    fn is_reporting(&self) -> bool {
        self.runs_coordinator() && Path::new(&self.path("cluster_report.md")).exists()
    }

    /// Ends the coordinator and shows its report in a few lines.
    fn close(&self, coordinator: Coordinator, warden: &mut Warden) {
        let group = coordinator.id();
        if let Err(error) = coordinator.stop() {
            say::err(&format!("fakegpu: {error:#}\n"));
        }
        warden.forget(group);
        say::out(&self.report());
    }

    fn say_where_the_report_is(&self) {
        if self.is_reporting() {
            let at = self.arguments.report.join("cluster_report.md");
            say::out(&format!("report: {}\n", at.display()));
        }
    }

    /// A file in the report's folder.
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn job(&self, way: Option<Way>) -> OwnedJob<'_> {
        OwnedJob { setting: self, way, cluster_file: self.path("cluster.yaml") }
    }

    /// The coordinator, started here or waited for.
    fn meet_coordinator(&self, warden: &mut Warden) -> Result<(Option<Coordinator>, Option<Way>)> {
        if !self.needs_coordinator() {
            return Ok((None, None));
        }
        if let Some(host) = self.host.as_ref().filter(|_| !self.runs_coordinator()) {
            let token = written_token().with_context(|| {
                "FAKEGPU_COORDINATOR_TOKEN is not set: use the line that `fakegpu run` prints on host 0"
                    .to_owned()
            })?;
            let way = Way { address: host.coordinator.clone(), token };
            wait_for_coordinator(&way)?;
            return Ok((None, Some(way)));
        }
        let coordinator = self.start_coordinator()?;
        warden.add(coordinator.id(), Mercy::Terminate);
        let way = coordinator.way().clone();
        if let Some(host) = &self.host {
            self.announce(host, &way);
        }
        Ok((Some(coordinator), Some(way)))
    }

    fn start_coordinator(&self) -> Result<Coordinator> {
        let address = match (&self.host, self.arguments.transport) {
            (Some(host), _) => host.coordinator.to_string(),
            (None, Transport::Tcp) => "127.0.0.1:0".to_owned(),
            // An abstract name: nothing in the file system that could be left behind.
            (None, Transport::Unix) => format!("@fakegpu-run-{}-{}", std::process::id(), random_hex::<6>()?),
        };
        // Hosts share the secret; a run on one host has one of its own, whatever the environment says.
        let shared = self.host.as_ref().and_then(|_| written_token());
        Coordinator::start(&Start {
            address: &address,
            token: shared.map_or_else(random_hex::<16>, Ok)?,
            log: self.path("coordinator.log").into(),
            report: Some(Path::new(&self.path("cluster_report.json"))),
            cluster_file: Some(&self.path("cluster.yaml")),
            base: &self.base,
        })
    }

    /// Tells a person what to run on the other hosts; a secret of theirs is not repeated.
    fn announce(&self, host: &Host, way: &Way) {
        if host.count == 1 {
            return;
        }
        let token = if written_token().is_some() { "..." } else { &way.token };
        let flags = others_flags(self.arguments);
        say::err(&format!(
            "fakegpu: the coordinator listens on {}; on each other host, with I from 1 to {}, run\n  \
             FAKEGPU_COORDINATOR_TOKEN={token} fakegpu run --nnodes {} --node-rank I --coordinator {} {flags}\n",
            way.address,
            host.count - 1,
            host.count,
            host.coordinator,
        ));
    }

    fn run_ranks(&self, way: Option<Way>, signals: &mut Signals, warden: &mut Warden) -> Result<Outcome> {
        let plans = self.job(way).ranks()?;
        make_room_for(plans.len());
        let mut ranks = Vec::with_capacity(plans.len());
        for plan in &plans {
            let group = self.start_rank(plan)?;
            warden.add(group.id(), Mercy::Kill);
            ranks.push((plan.rank.0, group));
        }
        let bar = self.progress(ranks.len());
        let children = ranks.iter_mut().map(|(rank, group)| (*rank, group.child_mut()));
        let printer = Printer::start(children, bar.clone()).context("starting to read the ranks' output")?;
        let mut audience = Terminal { bar: bar.clone(), warden };
        let supervisor =
            Supervisor::new(ranks, self.arguments.on_failure, Patience::default(), &mut audience);
        let outcome = supervisor.run(signals).context("waiting for ranks");
        printer.finish();
        bar.finish_and_clear();
        outcome
    }

    fn run_launcher(&self, way: Option<Way>, signals: &mut Signals, warden: &mut Warden) -> Result<Outcome> {
        make_room_for(usize::try_from(self.shape.world_size).unwrap_or(usize::MAX));
        let variables = self.job(way).launcher()?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments.program[1..]).env_clear().envs(variables);
        let group = Group::start(&mut command)
            .with_context(|| format!("cannot start the launcher `{}`", self.program.display()))?;
        warden.add(group.id(), Mercy::Kill);
        let mut audience = Terminal { bar: ProgressBar::hidden(), warden };
        let supervisor =
            Supervisor::new(vec![(0, group)], self.arguments.on_failure, Patience::default(), &mut audience);
        supervisor.run(signals).context("waiting for the launcher")
    }

    fn start_rank(&self, plan: &RankPlan) -> Result<Group> {
        let output = || if self.arguments.no_prefix { Stdio::inherit() } else { Stdio::piped() };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments.program[1..]).env_clear().envs(&plan.variables);
        command.stdin(Stdio::null()).stdout(output()).stderr(output());
        Group::start(&mut command)
            .with_context(|| format!("cannot start `{}` as rank {}", self.program.display(), plan.rank))
    }

    /// A line that moves, for people who watch; nothing for files and pipes.
    fn progress(&self, ranks: usize) -> ProgressBar {
        if self.arguments.no_prefix || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(format!("{ranks} ranks running"));
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// Where to read more about what went wrong.
    fn hint(&self, report: &serde_json::Value) -> String {
        match report.pointer("/resilience/failure_count").and_then(serde_json::Value::as_u64) {
            None | Some(0) => String::new(),
            Some(_) => format!("explain: fakegpu explain {}\n", self.arguments.report.display()),
        }
    }

    /// The report in a few lines.
    fn report(&self) -> String {
        let path = self.path("cluster_report.json");
        let read = fs::read(&path).map_err(anyhow::Error::from);
        match read.and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)) {
            Ok(report) => format!("{}{}", table::summary(&report), self.hint(&report)),
            Err(error) => format!("there is no report to show from `{path}`: {error}\n"),
        }
    }
}

/// A [`Job`] with what it borrows.
struct OwnedJob<'a> {
    setting: &'a Setting<'a>,
    way: Option<Way>,
    cluster_file: String,
}

impl OwnedJob<'_> {
    fn ranks(self) -> Result<Vec<RankPlan>> {
        self.with(|job| job.ranks())
    }

    fn launcher(self) -> Result<Variables> {
        self.with(|job| job.launcher())
    }

    fn with<T>(self, ask: impl FnOnce(&Job<'_>) -> T) -> T {
        let Self { setting, way, cluster_file } = self;
        ask(&Job {
            cluster: &setting.shape.cluster,
            world_size: setting.shape.world_size,
            only_node: setting.host.as_ref().map(|host| host.node),
            cluster_file: &cluster_file,
            master: setting.master.clone(),
            dist_mode: &word(setting.arguments.dist_mode),
            way,
            library: &setting.library,
            companions: &setting.companions,
            base: &setting.base,
        })
    }
}

/// What people see while ranks run.
struct Terminal<'a> {
    bar: ProgressBar,
    warden: &'a mut Warden,
}

impl Audience for Terminal<'_> {
    fn ended(&mut self, group: u32, running: usize, ended: usize) {
        self.warden.forget(group);
        self.bar.set_message(format!("{running} ranks running, {ended} ended"));
    }

    fn say(&mut self, text: &str) {
        self.bar.suspend(|| say::err(text));
    }
}

/// What ranks inherit: this process's environment, what flags say in its stead, and `--env`.
fn base(arguments: &RunArguments) -> Result<Variables> {
    let mut base: Variables = std::env::vars_os().collect();
    let mut set = |name: &str, value: OsString| {
        base.insert(name.into(), value);
    };
    if let Some(mode) = arguments.mode {
        set("FAKEGPU_MODE", word(mode).into());
    }
    if let Some(level) = arguments.log_level {
        set("FAKEGPU_LOG", word(level).into());
    }
    if let Some(millis) = arguments.timeout_ms {
        set("FAKEGPU_COORDINATOR_TIMEOUT_MS", millis.to_string().into());
    }
    if let Some(path) = &arguments.real_nccl {
        set("FAKEGPU_REAL_NCCL_PATH", existing("--real-nccl", path)?);
    }
    if let Some(path) = &arguments.faults {
        set("FAKEGPU_FAULTS", existing("--faults", path)?);
    }
    base.append(&mut plan::assignments(&arguments.variables)?);
    Ok(base)
}

/// A file's absolute path, for processes that may stand elsewhere.
fn existing(flag: &str, path: &Path) -> Result<OsString> {
    fs::File::open(path).with_context(|| format!("cannot read {flag} `{}`", path.display()))?;
    Ok(std::path::absolute(path)?.into_os_string())
}

/// Makes the report's folder; its absolute path.
fn folder(path: &Path) -> Result<String> {
    let told = || format!("cannot use `{}` for the report", path.display());
    fs::create_dir_all(path).with_context(told)?;
    let absolute = std::path::absolute(path).with_context(told)?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| anyhow::anyhow!("the path is not UTF-8 text"))
        .with_context(told)
}

/// A port that nobody listens at now, for the program's own rendezvous.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// Two pipes and a pidfd a rank; the soft limit is raised only where that is too much, since programs inherit it.
fn make_room_for(ranks: usize) {
    let needed = ranks as u64 * 3 + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        // Where it may not be raised, starting a rank fails with the system's own words.
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
            .unwrap_or_default();
    }
}

fn written_token() -> Option<String> {
    std::env::var("FAKEGPU_COORDINATOR_TOKEN").ok().filter(|token| !token.is_empty())
}

/// `N` bytes that nobody can guess, in hexadecimal.
pub(crate) fn random_hex<const N: usize>() -> Result<String> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bytes = [0; N];
    let count =
        getrandom(&mut bytes, GetRandomFlags::empty()).context("asking the kernel for random bytes")?;
    if count < N {
        bail!("the kernel gave {count} random bytes instead of {N}");
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The flags that must be the same on every host, as a person would type them.
fn others_flags(arguments: &RunArguments) -> String {
    let shape = &arguments.shape;
    let mut words: Vec<String> = Vec::new();
    words.extend(shape.ranks_per_node.map(|ranks| format!("--ranks-per-node {ranks}")));
    words.extend(shape.preset.as_ref().map(|name| format!("--preset {name}")));
    words.extend(shape.cluster.as_ref().map(|file| format!("--cluster {}", file.display())));
    words.push("--".to_owned());
    words.extend(arguments.program.iter().map(|word| word.display().to_string()));
    words.join(" ")
}

/// Waits until host 0's coordinator answers; a token that it refuses is no reason to wait.
fn wait_for_coordinator(way: &Way) -> Result<()> {
    let deadline = Instant::now() + HOSTS_PATIENCE;
    loop {
        match speak::ask(&way.address, "PING", Duration::from_secs(2)) {
            Ok(_) => break,
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("host 0 was waited for {HOSTS_PATIENCE:?}")));
            }
            Err(_) => std::thread::sleep(HOSTS_PERIOD),
        }
    }
    speak::ask(&way.address, &speak::with_token("STATS", &way.token), Duration::from_secs(5)).map(drop)
}

/// Host 0's coordinator serves until the last rank of every host has left, or a signal comes.
fn wait_for_other_hosts(way: &Way, signals: &mut Signals) {
    let deadline = Instant::now() + HOSTS_PATIENCE;
    let request = speak::with_token("STATS", &way.token);
    while signals.take().is_empty() {
        let sessions = speak::ask(&way.address, &request, Duration::from_secs(2))
            .ok()
            .and_then(|answer| speak::number(&answer, "sessions"));
        match sessions {
            None | Some(0) => return,
            Some(left) if Instant::now() >= deadline => {
                return say::err(&format!(
                    "fakegpu: {left} ranks of other hosts still run; their report ends here\n"
                ));
            }
            Some(_) => std::thread::sleep(HOSTS_PERIOD),
        }
    }
}
