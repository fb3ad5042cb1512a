//! The ranks' output as one stream: whole lines, each with its rank in front.
//!
//! [`Lines`] is pure. [`Printer`] is the one thread that reads all pipes, so no two lines ever mix; a terminal that
//! is slow or stopped holds the ranks back through their pipes, and takes no memory here.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A longer line is printed in pieces of this many bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// How long output may still come from what outlives the ranks and holds their pipes.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// Cuts one rank's bytes into lines with a prefix. Bytes are passed through as they are, text or not.
#[derive(Debug)]
pub(crate) struct Lines {
    prefix: Vec<u8>,
    partial: Vec<u8>,
    /// The line that is being read began in a piece that is printed already.
    continued: bool,
}

impl Lines {
    pub(crate) fn new(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), partial: Vec::new(), continued: false }
    }

    /// Takes bytes and adds the lines that are complete now to `out`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.take(&bytes[..end], out);
            self.print(out);
            self.continued = false;
            bytes = &bytes[end + 1..];
        }
        self.take(bytes, out);
    }

    /// Adds what is left without an end of line.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.print(out);
        }
        self.continued = false;
    }

    /// Adds to the partial line; prints pieces of it as it grows too long.
    fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while self.partial.len() + bytes.len() > LINE_BYTES_MAX {
            let (now, later) = bytes.split_at(LINE_BYTES_MAX - self.partial.len());
            self.partial.extend_from_slice(now);
            self.print(out);
            self.continued = true;
            bytes = later;
        }
        self.partial.extend_from_slice(bytes);
    }

    fn print(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        if self.continued {
            out.extend_from_slice("… ".as_bytes());
        }
        out.append(&mut self.partial);
        out.push(b'\n');
    }
}

/// `[rank 3] `, in a colour of its own on a terminal.
pub(crate) fn prefix(rank: u32, coloured: bool) -> String {
    // Red is left to errors, black and white to backgrounds.
    const COLOURS: [u8; 10] = [36, 33, 35, 32, 34, 96, 93, 95, 92, 94];
    if coloured {
        let colour = COLOURS[rank as usize % COLOURS.len()];
        format!("\u{1b}[{colour}m[rank {rank}]\u{1b}[0m ")
    } else {
        format!("[rank {rank}] ")
    }
}

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Stdout,
    Stderr,
}

impl Target {
    fn is_coloured(self) -> bool {
        let is_terminal = match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        };
        is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    /// A reader that is gone is no reason to stop reading: the ranks would block.
    fn write(self, bytes: &[u8]) {
        let written = match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            Self::Stderr => io::stderr().lock().write_all(bytes),
        };
        written.unwrap_or_default();
    }
}

/// One pipe from a rank.
#[derive(Debug)]
struct Stream {
    pipe: File,
    target: Target,
    lines: Lines,
}

/// The thread that prints what the ranks say.
#[derive(Debug)]
pub(crate) struct Printer {
    thread: JoinHandle<()>,
    /// Its end tells the thread that all ranks have ended.
    ending: UnixStream,
}

impl Printer {
    /// Starts to print the output of `children`, which have pipes for it; draws around `bar`.
    pub(crate) fn start<'a>(
        children: impl Iterator<Item = (u32, &'a mut Child)>,
        bar: ProgressBar,
    ) -> io::Result<Self> {
        let (ending, ended) = UnixStream::pair()?;
        let streams = children.flat_map(|(rank, child)| streams(rank, child)).collect();
        let thread = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || print_all(streams, &ended, &bar))?;
        Ok(Self { thread, ending })
    }

    /// Waits until all that the ranks said is printed.
    pub(crate) fn finish(self) {
        drop(self.ending);
        // It has no way to fail but a bug, which has then been printed.
        drop(self.thread.join());
    }
}

fn streams(rank: u32, child: &mut Child) -> Vec<Stream> {
    let stream = |pipe: OwnedFd, target: Target| Stream {
        pipe: File::from(pipe),
        target,
        lines: Lines::new(prefix(rank, target.is_coloured())),
    };
    let stdout = child.stdout.take().map(|pipe| stream(pipe.into(), Target::Stdout));
    let stderr = child.stderr.take().map(|pipe| stream(pipe.into(), Target::Stderr));
    stdout.into_iter().chain(stderr).collect()
}

fn print_all(mut streams: Vec<Stream>, ended: &UnixStream, bar: &ProgressBar) {
    let mut buffer = vec![0; LINE_BYTES_MAX];
    let mut deadline = None;
    while !streams.is_empty() {
        let left = deadline.map(|at: Instant| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        let Some(ready) = ready(&streams, deadline.is_none().then_some(ended), left) else { break };
        if ready.ended {
            deadline = Some(Instant::now() + AFTER_THE_END);
        }
        // From the back, so that removing one leaves the others' places.
        for &at in ready.streams.iter().rev() {
            if !pass_on(&mut streams[at], &mut buffer, bar) {
                streams.remove(at);
            }
        }
    }
    for mut stream in streams {
        let mut out = Vec::new();
        stream.lines.finish(&mut out);
        bar.suspend(|| stream.target.write(&out));
    }
}

struct Ready {
    streams: Vec<usize>,
    ended: bool,
}

fn ready(streams: &[Stream], ended: Option<&UnixStream>, timeout: Option<Duration>) -> Option<Ready> {
    let mut fds: Vec<PollFd<'_>> =
        streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN)).collect();
    fds.extend(ended.map(|ended| PollFd::new(ended, PollFlags::IN)));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(_) => return None,
    }
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let ended = fds.len() > streams.len() && fds.last().is_some_and(is_ready);
    let streams =
        fds.iter().take(streams.len()).enumerate().filter(|(_, fd)| is_ready(fd)).map(|(at, _)| at).collect();
    Some(Ready { streams, ended })
}

/// Reads once and prints; whether there may be more.
fn pass_on(stream: &mut Stream, buffer: &mut [u8], bar: &ProgressBar) -> bool {
    let mut out = Vec::new();
    let more = match stream.pipe.read(buffer) {
        Ok(0) => false,
        Ok(count) => {
            stream.lines.push(&buffer[..count], &mut out);
            true
        }
        Err(error) => error.kind() == io::ErrorKind::Interrupted,
    };
    if !more {
        stream.lines.finish(&mut out);
    }
    if !out.is_empty() {
        bar.suspend(|| stream.target.write(&out));
    }
    more
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut lines, mut out) = (Lines::new("> "), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut out);
        }
        lines.finish(&mut out);
        out
    }

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &[u8]) {
        assert_eq!(printed(pieces), expected);
    }

    #[test]
    fn only_whole_lines_are_printed_until_the_end() {
        let (mut lines, mut out) = (Lines::new("> "), Vec::new());
        lines.push(b"a\nhalf", &mut out);
        assert_eq!(out, b"> a\n");
        lines.push(b" more\n", &mut out);
        assert_eq!(out, b"> a\n> half more\n");
        lines.finish(&mut out);
        assert_eq!(out, b"> a\n> half more\n");
    }

    #[test]
    fn the_last_line_needs_no_newline_and_bytes_need_be_no_text() {
        check(&[b"a\nb"], b"> a\n> b\n");
        check(&[b"\xff\xfe\n\n"], b"> \xff\xfe\n> \n");
        check(&[b""], b"");
    }

    #[test]
    fn a_line_without_end_is_printed_in_pieces() {
        let long = vec![b'x'; 2 * LINE_BYTES_MAX + 1];
        let out = printed(&[&long, b"\nnext\n"]);
        let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0].len(), 2 + LINE_BYTES_MAX);
        assert_eq!(lines[2], "> … x".as_bytes());
        assert_eq!(lines[3], b"> next");
    }

    #[test]
    fn colours_are_for_terminals_and_go_by_rank() {
        assert_eq!(prefix(3, false), "[rank 3] ");
        assert_eq!(prefix(3, true), "\u{1b}[32m[rank 3]\u{1b}[0m ");
        assert_ne!(prefix(0, true).replace('0', ""), prefix(1, true).replace('1', ""));
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_into_reads_changes_nothing(text in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200), cut in 0_usize..200) {
            let cut = cut.min(text.len());
            prop_assert_eq!(printed(&[&text[..cut], &text[cut..]]), printed(&[&text]));
        }

        #[test]
        fn no_byte_is_lost(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let out = printed(&[&text]);
            let mut kept: Vec<u8> = Vec::new();
            for line in out.split_inclusive(|byte| *byte == b'\n') {
                kept.extend_from_slice(line.strip_prefix(b"> ").unwrap());
            }
            let mut expected = text.clone();
            if text.last().is_some_and(|byte| *byte != b'\n') {
                expected.push(b'\n');
            }
            prop_assert_eq!(kept, expected);
        }
    }
}
