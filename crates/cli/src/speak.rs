//! Asking a coordinator: one line of text, or frames where the answer is larger.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fakegpu_config::Address;
use fakegpu_proto::text::LINE_BYTES_MAX;
use fakegpu_proto::{Hello, Snapshot, ToCoordinator, ToRank};
use fakegpu_transport::{Dialer, Link, Wire};
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

/// What the job does right now, as a session that joins nothing; both ways within `timeout`.
pub(crate) fn inspect(
    address: &Address,
    token: Option<String>,
    program: &str,
    timeout: Duration,
) -> Result<Snapshot> {
    let wire = dialer(address)
        .dial(timeout)
        .with_context(|| format!("cannot connect to the coordinator at `{address}`"))?;
    let mut link = Link::new(wire);
    let deadline = Instant::now() + timeout;
    let hello = Hello { pid: std::process::id(), program: program.to_owned(), token, ..Hello::default() };
    let told = || format!("asking the coordinator at `{address}`");
    let welcome =
        request(&mut link, 1, &ToCoordinator::Hello(Box::new(hello)), deadline).with_context(told)?;
    let ToRank::Welcome { .. } = welcome else { bail!("{}: it answers hello with {welcome:?}", told()) };
    let answer = request(&mut link, 2, &ToCoordinator::Inspect, deadline).with_context(told)?;
    let ToRank::Snapshot(snapshot) = answer else { bail!("{}: it answers with {answer:?}", told()) };
    // Without a goodbye the report would list this process among the dead.
    let goodbye = ToCoordinator::Goodbye { grouped: 0 };
    link.send(3, &goodbye, deadline.saturating_duration_since(Instant::now())).with_context(told)?;
    Ok(*snapshot)
}

/// Sends a request and waits for its answer; what else comes meanwhile is passed over.
fn request(link: &mut Link, number: u64, message: &ToCoordinator, deadline: Instant) -> Result<ToRank> {
    let left = || deadline.saturating_duration_since(Instant::now());
    link.send(number, message, left())?;
    loop {
        match link.receive::<ToRank>(left())? {
            Some((answered, ToRank::Failed(fault))) if answered == number => bail!("it refuses: {fault}"),
            Some((answered, answer)) if answered == number => return Ok(answer),
            Some(_) => {}
            None if Instant::now() >= deadline => bail!("it does not answer in time"),
            None => {}
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

    /// A coordinator that answers one session with what it is given, and gives back what it was asked.
    fn inspected(answers: Vec<ToRank>) -> (Result<Snapshot>, Vec<ToCoordinator>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let peer = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let mut link = Link::new(Wire::new(stream.into()).unwrap());
            let wait = Duration::from_secs(5);
            let mut questions = Vec::new();
            for answer in answers {
                let (number, question) = link.receive(wait).unwrap().unwrap();
                questions.push(question);
                link.send(0, &ToRank::Notice("by the way".to_owned()), wait).unwrap();
                link.send(number, &answer, wait).unwrap();
            }
            questions.extend(link.receive(wait).ok().flatten().map(|(_, question)| question));
            questions
        });
        let snapshot = inspect(&address, Some("t".to_owned()), "fakegpu ps", Duration::from_secs(5));
        (snapshot, peer.join().unwrap())
    }

    #[test]
    fn a_watcher_says_hello_and_goodbye_and_joins_nothing() {
        let welcome = ToRank::Welcome { session: fakegpu_units::SessionId(7), secret: 1 };
        let snapshot = Snapshot { at_ms: 12, ..Snapshot::default() };
        let (seen, questions) = inspected(vec![welcome, ToRank::Snapshot(Box::new(snapshot.clone()))]);
        assert_eq!(seen.unwrap(), snapshot);
        let [ToCoordinator::Hello(hello), ToCoordinator::Inspect, ToCoordinator::Goodbye { grouped: 0 }] =
            questions.as_slice()
        else {
            panic!("{questions:?}")
        };
        assert_eq!((hello.program.as_str(), hello.token.as_deref()), ("fakegpu ps", Some("t")));
        assert_eq!(hello.placement, None);
    }

    #[test]
    fn a_coordinator_that_refuses_a_watcher_is_quoted() {
        let refusal = fakegpu_proto::Fault::usage("the token is wrong");
        let (seen, _) = inspected(vec![ToRank::Failed(refusal)]);
        assert!(format!("{:#}", seen.unwrap_err()).ends_with("it refuses: the token is wrong"));
    }

    #[test]
    fn a_refusal_and_a_silent_end_are_errors_in_words() {
        let (answer, _) = asked("ERR code=unauthorised detail=the token is wrong\n");
        assert!(answer.unwrap_err().to_string().ends_with("refuses: the token is wrong"));
        let (answer, _) = asked("OK cut off");
        assert!(format!("{:#}", answer.unwrap_err()).ends_with("closed the connection without an answer"));
    }
}
