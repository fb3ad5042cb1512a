//! The coordinator's one-line text protocol, from the asking side.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fakegpu_config::Address;
use fakegpu_proto::text::LINE_BYTES_MAX;
use fakegpu_transport::{Dialer, Wire};
use fakegpu_transport_tcp::TcpDialer;
use fakegpu_transport_uds::UdsDialer;

/// Sends one line and waits for its answer, both within `timeout`. An `ERR` answer is an error with its detail.
pub(crate) fn ask(address: &Address, line: &str, timeout: Duration) -> Result<String> {
    let deadline = Instant::now() + timeout;
    let wire = dialer(address)
        .dial(timeout)
        .with_context(|| format!("cannot connect to the coordinator at `{address}`"))?;
    wire.send_all(format!("{line}\n").as_bytes(), timeout).context("sending a request to the coordinator")?;
    let answer = answer(&wire, deadline).with_context(|| format!("asking the coordinator at `{address}`"))?;
    match answer.strip_prefix("ERR ") {
        None => Ok(answer),
        Some(refusal) => {
            let detail = refusal.split_once("detail=").map_or(refusal, |(_, detail)| detail);
            bail!("the coordinator at `{address}` refuses: {detail}")
        }
    }
}

/// A request with the token that it needs.
pub(crate) fn with_token(verb: &str, token: &str) -> String {
    format!("{verb} token={token}")
}

/// The number behind `key=` in an `OK` line.
pub(crate) fn number(answer: &str, key: &str) -> Option<u64> {
    answer.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}

fn dialer(address: &Address) -> Box<dyn Dialer> {
    match address {
        Address::Unix(path) => Box::new(UdsDialer::new(path)),
        Address::Tcp { .. } => Box::new(TcpDialer::new(&address.to_string())),
    }
}

fn answer(wire: &Wire, deadline: Instant) -> Result<String> {
    let mut line = Vec::new();
    let mut buffer = [0; LINE_BYTES_MAX];
    loop {
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        if line.len() > LINE_BYTES_MAX {
            bail!("it answers with more than {LINE_BYTES_MAX} bytes and no end of line");
        }
        if !wire.wait_readable(deadline.saturating_duration_since(Instant::now()))?
            && Instant::now() >= deadline
        {
            bail!("it does not answer in time");
        }
        match wire.receive(&mut buffer) {
            Ok(0) => bail!("it closed the connection without an answer"),
            Ok(count) => line.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection with `reply`, whatever is asked; gives back what was.
    #[track_caller]
    fn asked(reply: &'static str) -> (Result<String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
            line
        });
        let answer = ask(&address, &with_token("STATS", "t"), Duration::from_secs(5));
        (answer, peer.join().unwrap())
    }

    #[test]
    fn an_answer_is_its_line_and_carries_numbers() {
        let (answer, question) = asked("OK sessions=3 pending=0\n");
        let answer = answer.unwrap();
        assert_eq!(question, "STATS token=t\n");
        assert_eq!(number(&answer, "sessions"), Some(3));
        assert_eq!(number(&answer, "session"), None);
    }

    #[test]
    fn a_refusal_and_a_silent_end_are_errors_in_words() {
        let (answer, _) = asked("ERR code=unauthorised detail=the token is wrong\n");
        assert!(answer.unwrap_err().to_string().ends_with("refuses: the token is wrong"));
        let (answer, _) = asked("OK cut off");
        assert!(format!("{:#}", answer.unwrap_err()).ends_with("closed the connection without an answer"));
    }
}
