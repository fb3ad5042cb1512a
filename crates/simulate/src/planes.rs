//! How one rank's bytes move in one communicator: the rounds of collectives, and transfers of two ranks, which are
//! made ready when the first one runs.

use std::collections::VecDeque;
use std::sync::Arc;

use fakegpu_proto::{Fault, Lane};
use fakegpu_staging_shm::{Exchange, Segment, SharedTransfers, StreamedTransfers, Transfers};
use fakegpu_units::{CommId, Rank};

use crate::session::Session;

/// The road that was decided for a communicator.
#[derive(Debug)]
pub(crate) enum Road {
    /// No bytes move.
    Off,
    /// Through a segment.
    Shared(Arc<Segment>),
    /// Through the coordinator.
    Streamed,
}

/// An operation by its submission and its place there.
pub(crate) type Ticket = (u64, usize);

/// What moves over a communicator's planes.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// The collective that runs.
    pub(crate) running: Option<Ticket>,
    /// Collectives that may run when it has ended, in order.
    pub(crate) queue: VecDeque<Ticket>,
    /// Transfers under way.
    pub(crate) flying: usize,
}

/// One rank's ends of a communicator's data planes.
#[derive(Debug)]
pub(crate) struct Planes {
    road: Road,
    pub(crate) traffic: Traffic,
    pub(crate) exchange: Option<Box<dyn Exchange>>,
    pub(crate) transfers: Option<Box<dyn Transfers>>,
    slot_bytes: usize,
}

impl Planes {
    pub(crate) fn new(road: Road, exchange: Option<Box<dyn Exchange>>, slot_bytes: usize) -> Self {
        Self { road, traffic: Traffic::default(), exchange, transfers: None, slot_bytes }
    }

    /// Bytes of host memory that it stages through: this rank's share.
    pub(crate) fn staged_bytes(&self) -> u64 {
        match &self.road {
            Road::Off => 0,
            Road::Shared(segment) => {
                (segment.geometry().bytes() / segment.geometry().size().max(1) as usize) as u64
            }
            Road::Streamed => self.slot_bytes as u64,
        }
    }

    /// The transfers' plane; `None` where no bytes move.
    pub(crate) fn transfers(
        &mut self,
        session: &Session,
        comm: CommId,
        rank: Rank,
        size: u32,
    ) -> Result<Option<&mut (dyn Transfers + '_)>, Fault> {
        if self.transfers.is_none() {
            self.transfers = match &self.road {
                Road::Off => None,
                Road::Shared(segment) if segment.has_channels() => {
                    let made = SharedTransfers::new(Arc::clone(segment), rank).map_err(Fault::system)?;
                    Some(Box::new(made))
                }
                // Also where a communicator is too large for a channel for each pair.
                Road::Shared(_) | Road::Streamed => {
                    let wire = session.open_data(comm, rank, Lane::Transfers)?;
                    Some(Box::new(StreamedTransfers::new(wire, rank, size, self.slot_bytes)))
                }
            };
        }
        Ok(match &mut self.transfers {
            Some(transfers) => Some(transfers.as_mut()),
            None => None,
        })
    }

    /// Gives both up: peers see it. What moved over them has ended.
    pub(crate) fn fail(&mut self) {
        self.traffic = Traffic::default();
        if let Some(exchange) = &mut self.exchange {
            exchange.fail();
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.fail();
        }
    }
}
