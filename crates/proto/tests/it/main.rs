//! Laws of the wire: decode(encode(x)) = x, and noise is an error, never a panic or a large allocation.

use fakegpu_proto::frame::{self, HEADER_BYTES};
use fakegpu_proto::text::TextLine;
use fakegpu_proto::{Action, Descriptor, FrameReader, Hello, JoinComm, ToCoordinator, ToRank, UniqueId};
use fakegpu_units::{Collective, CommId, DataType, Rank, ReduceOp};
use proptest::prelude::*;

fn descriptor() -> impl Strategy<Value = Descriptor> {
    (0..Collective::ALL.len(), any::<u64>(), 0..DataType::ALL.len(), 0..ReduceOp::ALL.len(), any::<u32>())
        .prop_map(|(op, count, data_type, reduce, root)| {
            let op = Collective::ALL[op];
            Descriptor {
                op,
                count,
                data_type: DataType::ALL[data_type],
                reduce: op.reduces().then(|| ReduceOp::ALL[reduce]),
                root: op.has_root().then_some(Rank(root)),
            }
        })
}

fn message() -> impl Strategy<Value = ToCoordinator> {
    prop_oneof![
        Just(ToCoordinator::Ping),
        Just(ToCoordinator::Shutdown),
        (any::<u32>(), ".{0,40}", ".{0,20}").prop_map(|(pid, host, program)| {
            ToCoordinator::Hello(Box::new(Hello {
                pid,
                host,
                node: None,
                program,
                dist_mode: "simulate".into(),
                force_socket: false,
                token: Some("t".into()),
                placement: None,
                join_timeout_ms: Some(7),
                collective_timeout_ms: None,
                ..Hello::default()
            }))
        }),
        (prop::collection::vec(any::<u8>(), 0..200), any::<u32>(), any::<u32>()).prop_map(
            |(id, size, rank)| {
                ToCoordinator::Join(Box::new(JoinComm {
                    unique_id: UniqueId::new(&id),
                    size,
                    rank: Rank(rank),
                    ..JoinComm::default()
                }))
            }
        ),
        prop::collection::vec(
            (any::<u64>().prop_map(CommId), any::<u32>().prop_map(Rank), descriptor().prop_map(Action::from)),
            0..50
        )
        .prop_map(|ops| ToCoordinator::Submit { ops, thread: 3 }),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_however_the_stream_is_cut(
        messages in prop::collection::vec((any::<u64>(), message()), 1..8),
        cut in 1..64_usize,
    ) {
        let mut stream = Vec::new();
        for (request, message) in &messages {
            stream.extend(frame::encode(*request, message).unwrap());
        }
        let mut reader = FrameReader::default();
        let mut seen = Vec::new();
        for piece in stream.chunks(cut) {
            reader.extend(piece);
            while let Some(frame) = reader.next_frame::<ToCoordinator>().unwrap() {
                seen.push(frame);
            }
        }
        prop_assert_eq!(seen, messages);
    }

    #[test]
    fn noise_is_refused_or_waited_for(noise in prop::collection::vec(any::<u8>(), 0..512)) {
        let mut reader = FrameReader::default();
        reader.extend(&noise);
        if let Ok(Some(_)) = reader.next_frame::<ToRank>() {
            prop_assert!(noise.starts_with(&frame::MAGIC));
        }
    }

    #[test]
    fn noise_behind_a_good_header_is_refused(mut noise in prop::collection::vec(any::<u8>(), 0..512)) {
        let mut bytes = frame::encode(1, &ToCoordinator::Ping).unwrap()[..HEADER_BYTES].to_vec();
        bytes[8..12].copy_from_slice(&u32::try_from(noise.len()).unwrap().to_le_bytes());
        bytes.append(&mut noise);
        let mut reader = FrameReader::default();
        reader.extend(&bytes);
        // Either some message happens to be spelt so, or an error; the reader never waits for more.
        prop_assert!(!matches!(reader.next_frame::<ToCoordinator>(), Ok(None)));
    }

    #[test]
    fn any_line_is_answered(line in ".{0,200}") {
        match TextLine::parse(&line) {
            Ok(_) => {}
            Err(error) => prop_assert_eq!(error.to_line().matches('\n').count(), 1),
        }
    }
}
