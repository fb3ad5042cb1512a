//! The processes that are connected: who they are, what they own, what they wait for.

use std::collections::BTreeMap;

use fakegpu_proto::{Hello, event::Ending};
use fakegpu_units::SessionId;

use crate::PeerId;

/// What a connection has turned out to be.
#[derive(Debug)]
pub(crate) enum Role {
    /// It has not said anything yet.
    New,
    /// A process.
    Session(Box<Session>),
    /// A person or script that speaks text.
    Text,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) trusted: bool,
    pub(crate) nonce: u64,
    pub(crate) role: Role,
}

/// One process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) hello: Hello,
    /// Set once it has said goodbye, so that the end of its connection is no death.
    pub(crate) goodbye: bool,
    /// Hazards that it has told.
    pub(crate) hazards: u32,
}

/// A process that is gone, for the sentences of those who still wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Departed {
    pub(crate) session: SessionId,
    pub(crate) ending: Ending,
    pub(crate) pid: u32,
    pub(crate) program: String,
}

/// The connections, by number.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    by_id: BTreeMap<PeerId, Peer>,
    peer_of_session: BTreeMap<SessionId, PeerId>,
    sessions_made: u64,
    /// The last processes that ended, oldest first; bounded, since it only feeds sentences.
    departed: Vec<Departed>,
}

const DEPARTED_MAX: usize = 4096;

impl Peers {
    pub(crate) fn add(&mut self, id: PeerId, peer: Peer) {
        self.by_id.insert(id, peer);
    }

    pub(crate) fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.by_id.get(&id)
    }

    pub(crate) fn role_mut(&mut self, id: PeerId) -> Option<&mut Role> {
        self.by_id.get_mut(&id).map(|peer| &mut peer.role)
    }

    /// Makes a connection a session.
    pub(crate) fn open(&mut self, id: PeerId, hello: Hello) -> Option<SessionId> {
        let peer = self.by_id.get_mut(&id)?;
        self.sessions_made += 1;
        let session = SessionId(self.sessions_made);
        peer.role = Role::Session(Box::new(Session { id: session, hello, goodbye: false, hazards: 0 }));
        self.peer_of_session.insert(session, id);
        Some(session)
    }

    pub(crate) fn session(&self, id: PeerId) -> Option<&Session> {
        match &self.by_id.get(&id)?.role {
            Role::Session(session) => Some(session),
            Role::New | Role::Text => None,
        }
    }

    pub(crate) fn session_mut(&mut self, id: PeerId) -> Option<&mut Session> {
        match &mut self.by_id.get_mut(&id)?.role {
            Role::Session(session) => Some(session),
            Role::New | Role::Text => None,
        }
    }

    pub(crate) fn peer_of(&self, session: SessionId) -> Option<PeerId> {
        self.peer_of_session.get(&session).copied()
    }

    pub(crate) fn nonce_of(&self, session: SessionId) -> Option<u64> {
        Some(self.by_id.get(self.peer_of_session.get(&session)?)?.nonce)
    }

    /// Removes a connection; gives back the session it was, if any.
    pub(crate) fn remove(&mut self, id: PeerId, ending: Ending) -> Option<Session> {
        let peer = self.by_id.remove(&id)?;
        let Role::Session(session) = peer.role else { return None };
        self.peer_of_session.remove(&session.id);
        let departed = Departed {
            session: session.id,
            ending: if session.goodbye { Ending::Goodbye } else { ending },
            pid: session.hello.pid,
            program: session.hello.program.clone(),
        };
        if self.departed.len() == DEPARTED_MAX {
            self.departed.remove(0);
        }
        self.departed.push(departed);
        Some(*session)
    }

    pub(crate) fn departed(&self, session: SessionId) -> Option<&Departed> {
        self.departed.iter().rev().find(|departed| departed.session == session)
    }

    pub(crate) fn session_count(&self) -> usize {
        self.peer_of_session.len()
    }
}

/// Bytes of a name in a hello, at most: names are kept and repeated in sentences.
const NAME_BYTES_MAX: usize = 512;

/// Refuses a hello with a name that is too long to keep.
pub(crate) fn check_names(hello: &Hello) -> Result<(), String> {
    let optional = |name: &Option<String>| name.as_ref().map_or(0, String::len);
    let lengths = [
        ("host", hello.host.len()),
        ("program", hello.program.len()),
        ("dist_mode", hello.dist_mode.len()),
        ("node", optional(&hello.node)),
        ("token", optional(&hello.token)),
    ];
    match lengths.into_iter().find(|(_, length)| *length > NAME_BYTES_MAX) {
        Some((name, length)) => {
            Err(format!("the hello's `{name}` has {length} bytes, at most {NAME_BYTES_MAX} are accepted"))
        }
        None => Ok(()),
    }
}

/// How sentences name a process.
pub(crate) fn process_name(pid: u32, program: &str) -> String {
    if program.is_empty() { format!("pid {pid}") } else { format!("pid {pid}, {program}") }
}
