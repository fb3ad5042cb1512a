//! Events become a report, and a log if one is wanted; files appear whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fakegpu_proto::{Event, EventKind};
use fakegpu_report::Fold;

use crate::Setup;

/// Where events go.
#[derive(Debug)]
pub(crate) struct Reporter {
    fold: Fold,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
    log: Option<BufWriter<File>>,
}

impl Reporter {
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
        let log = match &setup.event_log {
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot create the event log `{}`", path.display()))?;
                Some(BufWriter::new(file))
            }
            None => None,
        };
        Ok(Self {
            fold: Fold::new(fakegpu_report::Options { timeline_max: setup.timeline_max }),
            json: setup.report_json.clone(),
            markdown: setup.report_markdown.clone(),
            log,
        })
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        trace(event);
        self.fold.apply(event);
        if let Some(log) = &mut self.log {
            let written = serde_json::to_writer(&mut *log, event)
                .map_err(std::io::Error::from)
                .and_then(|()| log.write_all(b"\n"));
            if let Err(error) = written {
                tracing::error!(%error, "the event log cannot be written and ends here");
                self.log = None;
            }
        }
    }

    /// Writes the report as it stands.
    pub(crate) fn write(&mut self) -> Result<()> {
        if let Some(log) = &mut self.log {
            log.flush().context("writing the event log")?;
        }
        let report = self.fold.report();
        if let Some(path) = &self.json {
            write_whole(path, &report.to_json())?;
        }
        if let Some(path) = &self.markdown {
            write_whole(path, &report.to_markdown())?;
        }
        Ok(())
    }
}

/// Writes beside the file and renames, so that a reader never sees half a report.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    std::fs::write(&beside, text).with_context(|| format!("cannot write `{}`", beside.display()))?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot write `{}`", path.display()))
}

/// What a person who watches the daemon wants to see as it happens.
fn trace(event: &Event) {
    match &event.kind {
        EventKind::SessionOpened { session, pid, program } => {
            tracing::info!(session = session.0, pid, program, "session opened")
        }
        EventKind::SessionClosed { session, ending, .. } => {
            tracing::info!(session = session.0, ?ending, "session closed")
        }
        EventKind::CommCreated { comm, members, staging, fallback, .. } => {
            tracing::info!(comm = comm.0, ranks = members.len(), ?staging, "communicator created");
            if let Some(why) = fallback {
                tracing::warn!(comm = comm.0, why, "bytes are streamed, not shared");
            }
        }
        EventKind::CommLeft { comm, rank, aborted } => {
            tracing::info!(comm = comm.0, rank = rank.0, aborted, "rank left")
        }
        EventKind::Failure { code, detail, .. } => tracing::warn!(code = code.nccl_name(), "{detail}"),
        EventKind::Hazard { comm, detail } => tracing::warn!(comm = comm.0, "{detail}"),
        EventKind::Operation { comm, seq, descriptor, .. } => {
            tracing::debug!(comm = comm.0, seqno = seq.0, "{descriptor}")
        }
        EventKind::Transfer { comm, src, transfer, .. } => {
            tracing::debug!(comm = comm.0, src = src.0, "{transfer}")
        }
        EventKind::Put { comm, src, dst, bytes, .. } => {
            tracing::debug!(comm = comm.0, src = src.0, dst = dst.0, bytes, "put")
        }
        EventKind::Stopped { why } => tracing::info!(why, "stopping"),
        EventKind::Started { .. }
        | EventKind::ClusterChanged { .. }
        | EventKind::RankPlaced { .. }
        | EventKind::Barrier { .. } => {}
    }
}
