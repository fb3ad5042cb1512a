//! Random programs on the real library over real processes, held against the naive model: right ones end with
//! the model's bytes, wrong ones end soon, with a sentence and without a wrong byte.
//!
//! `FUZZ_PROGRAMS=10000 FUZZ_SEED=1 cargo test -p fakegpu-verification --test it fuzz -- --nocapture` runs many.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use fakegpu_verification::fuzz::{RANKS_MAX, generate, mutate};
use fakegpu_verification::{Daemon, Layout};
use serde_json::Value;

const PLAYER: &str = env!("CARGO_BIN_EXE_fuzz-player");

/// How long all players of a job may say nothing before it is called hung.
const HUNG: Duration = Duration::from_secs(30);

/// How long a call of a wrong program may wait for others.
const TIMEOUT_MS: &str = "1500";

/// A wrong program may meet that time a few times over, one rank's failure being the next one's wait.
const WRONG_MAX_MS: u64 = 12_000;

/// Programs in one job.
const PROGRAMS_A_JOB: u64 = 250;

/// Jobs that run at once: wrong programs mostly wait.
const JOBS: usize = 3;

/// Differences that are shown; one bug makes many.
const SHOWN: usize = 8;

/// Which programs a job plays, and how bytes move.
#[derive(Clone, Copy, Debug)]
struct Plan {
    first: u64,
    count: u64,
    wrong: bool,
    streamed: bool,
}

/// What one player said about one program.
type Line = Value;

/// What a reader passes on.
enum Said {
    Line(String),
    /// On the error stream.
    Aside(String),
    End,
}

impl Plan {
    const fn mode(self) -> &'static str {
        if self.wrong { "wrong" } else { "right" }
    }

    fn seeds(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    /// How to see one program again.
    fn again(self, seed: u64) -> String {
        let road = if self.streamed { "FAKEGPU_STAGING_FORCE_SOCKET=1 " } else { "" };
        format!(
            "{road}FUZZ_ONLY={} FUZZ_SEED={seed} FUZZ_PROGRAMS=1 cargo test -p fakegpu-verification --test it fuzz -- --nocapture; the program: \
             {PLAYER} --show {seed} {}",
            self.mode(),
            self.mode()
        )
    }

    /// Starts one player for each rank that any program may have.
    fn players(self, layout: &Layout, daemon: &Daemon) -> Vec<Child> {
        let start = |rank: usize| {
            let mut command = Command::new(PLAYER);
            command.arg(layout.lib().join("libnccl.so.2")).arg(rank.to_string());
            command.args([self.first.to_string(), self.count.to_string(), self.mode().to_owned()]);
            command.arg(self.mode()).current_dir(daemon.folder());
            command.env("FAKEGPU_COORDINATOR_ADDR", daemon.address());
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS_MAX.to_string());
            if self.streamed {
                command.env("FAKEGPU_STAGING_FORCE_SOCKET", "1");
            }
            if self.wrong {
                command.env("FAKEGPU_COLLECTIVE_TIMEOUT_MS", TIMEOUT_MS);
            }
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        (0..RANKS_MAX).map(start).collect()
    }

    /// Plays the programs; gives what was said, or in words why that is not all.
    fn play(self, layout: &Layout) -> Result<Vec<Line>, String> {
        let daemon = Daemon::start(layout, "unix", &[("FAKEGPU_LOG", "error")]);
        let mut players = self.players(layout, &daemon);
        let (to, from) = channel();
        for (rank, player) in players.iter_mut().enumerate() {
            read(rank, player.stdout.take().unwrap(), to.clone(), Said::Line, true);
            read(rank, player.stderr.take().unwrap(), to.clone(), Said::Aside, false);
        }
        drop(to);
        let (mut lines, mut last) = (Vec::new(), vec![String::new(); RANKS_MAX]);
        let mut playing = RANKS_MAX;
        while playing > 0 {
            match from.recv_timeout(HUNG) {
                Ok((_, Said::End)) => playing -= 1,
                Ok((rank, Said::Aside(text))) => last[rank] = text,
                Ok((rank, Said::Line(text))) => {
                    lines.push(serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?);
                    last[rank] = text;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let waits = daemon.ask("STATS");
                    players.iter_mut().for_each(|player| player.kill().unwrap_or_default());
                    let seed = self.unsaid(&lines);
                    return Err(format!(
                        "no player has said anything for {HUNG:?}; the first program that is not done is {seed:?}\n{}\n{waits}\n{last:#?}",
                        self.again(seed.unwrap_or_default())
                    ));
                }
            }
        }
        for (rank, player) in players.iter_mut().enumerate() {
            let status = player.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                let seed = self.unsaid(&lines);
                return Err(format!(
                    "player {rank} ended with {status} in program {seed:?} or later\n{}\n{last:#?}",
                    self.again(seed.unwrap_or_default())
                ));
            }
        }
        self.unsaid(&lines)
            .map_or(Ok(lines), |seed| Err(format!("not every rank has told of program {seed}")))
    }

    /// The first program of which not every rank has told.
    fn unsaid(self, lines: &[Line]) -> Option<u64> {
        let mut told: BTreeMap<u64, usize> = BTreeMap::new();
        for line in lines {
            *told.entry(line["seed"].as_u64().unwrap_or(u64::MAX)).or_default() += 1;
        }
        self.seeds().find(|seed| told.get(seed) != Some(&generate(*seed).ranks()))
    }
}

/// Passes on what a stream says, line by line.
fn read(
    rank: usize,
    stream: impl Read + Send + 'static,
    to: Sender<(usize, Said)>,
    say: fn(String) -> Said,
    ends: bool,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // Nobody listens once the judge has given up.
            to.send((rank, say(line))).unwrap_or_default();
        }
        if ends {
            to.send((rank, Said::End)).unwrap_or_default();
        }
    });
}

/// What came of many programs.
#[derive(Debug, Default)]
struct Tally {
    programs: [usize; 2],
    /// Wrong programs that failed as they must, that went well because nothing was wrong with them, and that
    /// failed although the model knows a way.
    failed: usize,
    harmless: usize,
    strict: usize,
    /// Buffers of failed calls that were left half written.
    torn: u64,
    /// By `ncclResult_t`.
    codes: BTreeMap<i64, usize>,
    /// Milliseconds, and the seed.
    longest_wrong: (u64, u64),
    /// What is no way to end.
    differences: Vec<String>,
}

impl Tally {
    fn add(&mut self, plan: Plan, lines: &[Line]) {
        for seed in plan.seeds() {
            let ranks: Vec<&Line> = lines.iter().filter(|line| line["seed"] == seed).collect();
            self.programs[usize::from(plan.wrong)] += 1;
            self.add_program(plan, seed, &ranks);
        }
    }

    fn add_program(&mut self, plan: Plan, seed: u64, ranks: &[&Line]) {
        let failed: Vec<&&Line> = ranks.iter().filter(|line| !line["failed"].is_null()).collect();
        let whole = ranks.iter().all(|line| line["whole"] == true);
        let milliseconds = ranks.iter().filter_map(|line| line["ms"].as_u64()).max().unwrap_or(0);
        let mut troubles: Vec<String> = Vec::new();
        for line in ranks {
            let found = line["trouble"].as_array().map_or(&[][..], Vec::as_slice);
            troubles.extend(found.iter().map(|trouble| format!("rank {}: {trouble}", line["rank"])));
            self.torn += line["torn"].as_u64().unwrap_or(0);
            if let Some(code) = line["code"].as_i64() {
                *self.codes.entry(code).or_default() += 1;
            }
        }
        if plan.wrong {
            match (failed.is_empty(), whole) {
                (true, true) => self.harmless += 1,
                (false, true) => self.strict += 1,
                (false, false) => self.failed += 1,
                (true, false) => troubles.push("nothing failed".to_owned()),
            }
            self.longest_wrong = self.longest_wrong.max((milliseconds, seed));
            if milliseconds > WRONG_MAX_MS {
                troubles.push(format!("it took {milliseconds} ms to fail"));
            }
        }
        // Where the model knows a way, a refusal is a difference; so of a right program always.
        if whole {
            let told = |line: &&&Line| {
                format!(
                    "rank {} failed in step {}, {} = {}: {}",
                    line["rank"], line["done"], line["failed"], line["code"], line["sentence"]
                )
            };
            troubles.extend(failed.iter().map(told));
        }
        if !troubles.is_empty() {
            let made = if plan.wrong { mutate(seed).mutation.unwrap_or_default() } else { String::new() };
            let shown = troubles.join("\n  ");
            self.differences.push(format!(
                "program {seed}, {} {made}\n  {shown}\n  {}",
                plan.mode(),
                plan.again(seed)
            ));
        }
    }

    fn assert_none(&self) {
        assert!(
            self.differences.is_empty(),
            "{} programs differ from the model:\n{}",
            self.differences.len(),
            self.differences[..self.differences.len().min(SHOWN)].join("\n")
        );
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The jobs to be run: half of the programs right, half wrong, and some of both by socket as well.
fn plans(programs: u64, first: u64, only: Option<&str>) -> Vec<Plan> {
    let by_socket = std::env::var_os("FAKEGPU_STAGING_FORCE_SOCKET").is_some();
    let mut plans = Vec::new();
    let mut add = |count: u64, wrong: bool, streamed: bool| {
        if only.is_some_and(|only| (only == "wrong") != wrong) {
            return;
        }
        let jobs = count.div_ceil(PROGRAMS_A_JOB);
        plans.extend((0..jobs).map(|job| {
            let begin = job * PROGRAMS_A_JOB;
            Plan { first: first + begin, count: PROGRAMS_A_JOB.min(count - begin), wrong, streamed }
        }));
    };
    let half = programs.div_ceil(2);
    add(half, false, by_socket);
    add(half, true, by_socket);
    if !by_socket && only.is_none() {
        add(half.div_ceil(4), false, true);
        add(half.div_ceil(4), true, true);
    }
    plans
}

/// Right programs that were played over both roads, and did not end with the same bytes.
fn roads_differ(played: &[(Plan, Vec<Line>)]) -> Vec<String> {
    let mut digests: BTreeMap<(u64, u64), &Value> = BTreeMap::new();
    let mut differences = Vec::new();
    for (_, lines) in played.iter().filter(|(plan, _)| !plan.wrong) {
        for line in lines {
            let key = (line["seed"].as_u64().unwrap_or(0), line["rank"].as_u64().unwrap_or(0));
            if *digests.entry(key).or_insert_with(|| &line["digest"]) != &line["digest"] {
                differences
                    .push(format!("program {}, rank {}: the two roads give different bytes", key.0, key.1));
            }
        }
    }
    differences
}

#[test]
fn random_programs_end_as_the_model_says() {
    let layout = Layout::find();
    let (programs, first) = (number("FUZZ_PROGRAMS", 120), number("FUZZ_SEED", 1));
    let plans = plans(programs, first, std::env::var("FUZZ_ONLY").ok().as_deref());
    let started = Instant::now();
    let (waiting, played) = (Mutex::new(plans.into_iter()), Mutex::new(Vec::new()));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                loop {
                    let Some(plan) = waiting.lock().unwrap().next() else { return };
                    match plan.play(&layout) {
                        Ok(lines) => played.lock().unwrap().push((plan, lines)),
                        Err(words) => failures.lock().unwrap().push(format!("{plan:?}: {words}")),
                    }
                }
            });
        }
    });
    let mut tally = Tally::default();
    let played = played.into_inner().unwrap();
    played.iter().for_each(|(plan, lines)| tally.add(*plan, lines));
    tally.differences.extend(roads_differ(&played));
    tally.differences.extend(failures.into_inner().unwrap());
    eprintln!(
        "fuzz: {} right and {} wrong programs in {:.0} s; of the wrong {} failed, {} were harmless, {} were refused though they could end; \
         results {:?}, {} buffers half written by failed calls, the longest wrong program took {} ms (seed {})",
        tally.programs[0],
        tally.programs[1],
        started.elapsed().as_secs_f64(),
        tally.failed,
        tally.harmless,
        tally.strict,
        tally.codes,
        tally.torn,
        tally.longest_wrong.0,
        tally.longest_wrong.1
    );
    tally.assert_none();
}
