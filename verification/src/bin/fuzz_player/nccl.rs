//! The handful of NCCL's functions that programs are made of, from a library that is loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use anyhow::{Context as _, Result};
use fakegpu_verification::fuzz::{Kind, Op};
use libloading::Library;

/// `ncclResult_t` of a call that did what was asked.
pub(crate) const SUCCESS: i32 = 0;

/// A communicator as the library knows it; NULL is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comm(*mut c_void);

impl Comm {
    /// No communicator.
    pub(crate) const NONE: Self = Self(ptr::null_mut());
}

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([c_char; 128]);

type Send = *const c_void;
type Recv = *mut c_void;
type Stream = *mut c_void;
type Raw = *mut c_void;

/// Declares the functions by their C signatures, and a way to find them all.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The library's functions.
        #[derive(Debug)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the type is the function's in nccl.h.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> $result>($name)
                        };
                        *symbol.with_context(|| format!("{:?} is not exported", $name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    init = c"ncclCommInitRank": fn(*mut Raw, c_int, UniqueId, c_int) -> c_int;
    split = c"ncclCommSplit": fn(Raw, c_int, c_int, *mut Raw, *mut c_void) -> c_int;
    count = c"ncclCommCount": fn(Raw, *mut c_int) -> c_int;
    user_rank = c"ncclCommUserRank": fn(Raw, *mut c_int) -> c_int;
    destroy = c"ncclCommDestroy": fn(Raw) -> c_int;
    abort = c"ncclCommAbort": fn(Raw) -> c_int;
    last_error = c"ncclGetLastError": fn(Raw) -> *const c_char;
    group_start = c"ncclGroupStart": fn() -> c_int;
    group_end = c"ncclGroupEnd": fn() -> c_int;
    all_reduce = c"ncclAllReduce": fn(Send, Recv, usize, c_int, c_int, Raw, Stream) -> c_int;
    reduce = c"ncclReduce": fn(Send, Recv, usize, c_int, c_int, c_int, Raw, Stream) -> c_int;
    broadcast = c"ncclBroadcast": fn(Send, Recv, usize, c_int, c_int, Raw, Stream) -> c_int;
    all_gather = c"ncclAllGather": fn(Send, Recv, usize, c_int, Raw, Stream) -> c_int;
    reduce_scatter = c"ncclReduceScatter": fn(Send, Recv, usize, c_int, c_int, Raw, Stream) -> c_int;
    all_to_all = c"ncclAlltoAll": fn(Send, Recv, usize, c_int, Raw, Stream) -> c_int;
    gather = c"ncclGather": fn(Send, Recv, usize, c_int, c_int, Raw, Stream) -> c_int;
    scatter = c"ncclScatter": fn(Send, Recv, usize, c_int, c_int, Raw, Stream) -> c_int;
    send = c"ncclSend": fn(Send, usize, c_int, c_int, Raw, Stream) -> c_int;
    recv = c"ncclRecv": fn(Recv, usize, c_int, c_int, Raw, Stream) -> c_int;
}

/// A loaded library.
#[derive(Debug)]
pub(crate) struct Nccl {
    functions: Functions,
    /// Keeps the functions where they are.
    _library: Library,
}

impl Nccl {
    /// Loads it.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        // SAFETY: the library runs nothing when it is loaded.
        let library = unsafe { Library::new(path) }.with_context(|| format!("loading {}", path.display()))?;
        Ok(Self { functions: Functions::of(&library)?, _library: library })
    }

    /// Joins a communicator of `ranks`, by an id that is this text.
    pub(crate) fn init(&self, ranks: usize, id: &str, rank: usize) -> (i32, Comm) {
        let mut bytes = [0; 128];
        for (byte, text) in bytes.iter_mut().zip(id.bytes()) {
            *byte = text.cast_signed();
        }
        let mut comm = ptr::null_mut();
        let number = |number: usize| c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: `comm` is a live place for the communicator.
        let code =
            unsafe { (self.functions.init)(&raw mut comm, number(ranks), UniqueId(bytes), number(rank)) };
        (code, Comm(comm))
    }

    /// Cuts a communicator; no colour takes part and joins none.
    pub(crate) fn split(&self, comm: Comm, colour: Option<i32>, key: i32) -> (i32, Comm) {
        let mut child = ptr::null_mut();
        // SAFETY: `child` is a live place for the communicator, and settings may be NULL.
        let code = unsafe {
            (self.functions.split)(comm.0, colour.unwrap_or(-1), key, &raw mut child, ptr::null_mut())
        };
        (code, Comm(child))
    }

    /// How many ranks a communicator has, and which of them this is; -1 where it does not say.
    pub(crate) fn place(&self, comm: Comm) -> (i32, i32) {
        let (mut count, mut rank) = (-1, -1);
        // SAFETY: a live `int`.
        let counted = unsafe { (self.functions.count)(comm.0, &raw mut count) };
        // SAFETY: a live `int`.
        let ranked = unsafe { (self.functions.user_rank)(comm.0, &raw mut rank) };
        if counted == SUCCESS && ranked == SUCCESS { (count, rank) } else { (-1, -1) }
    }

    /// Leaves a communicator in order.
    pub(crate) fn destroy(&self, comm: Comm) -> i32 {
        // SAFETY: a communicator of this library that is not used again.
        unsafe { (self.functions.destroy)(comm.0) }
    }

    /// Gives a communicator up.
    pub(crate) fn abort(&self, comm: Comm) -> i32 {
        // SAFETY: a communicator of this library that is not used again.
        unsafe { (self.functions.abort)(comm.0) }
    }

    /// Why the last call failed.
    pub(crate) fn last_error(&self) -> String {
        // SAFETY: NULL is allowed.
        let text = unsafe { (self.functions.last_error)(ptr::null_mut()) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: not NULL, and valid until this thread's next call.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Enters a group.
    pub(crate) fn group_start(&self) -> i32 {
        // SAFETY: no arguments.
        unsafe { (self.functions.group_start)() }
    }

    /// Leaves it, and starts what it holds; buffers of its calls must live until then.
    pub(crate) fn group_end(&self) -> i32 {
        // SAFETY: the player keeps a step's buffers until the step has ended.
        unsafe { (self.functions.group_end)() }
    }

    /// Makes a call. The buffers are as long as the operation says, on this rank of this communicator.
    pub(crate) fn call(&self, op: &Op, (send, recv): (Send, Recv), comm: Comm) -> i32 {
        let (f, count, data_type) = (&self.functions, op.count, op.data_type.number());
        let stream: Stream = ptr::null_mut();
        let comm = comm.0;
        match op.kind {
            // SAFETY: see above; so for all of these.
            Kind::AllReduce(by) => unsafe {
                (f.all_reduce)(send, recv, count, data_type, by.number(), comm, stream)
            },
            // SAFETY: as above.
            Kind::Reduce(by, root) => unsafe {
                (f.reduce)(send, recv, count, data_type, by.number(), root, comm, stream)
            },
            // SAFETY: as above.
            Kind::Broadcast(root) => unsafe {
                (f.broadcast)(send, recv, count, data_type, root, comm, stream)
            },
            // SAFETY: as above.
            Kind::AllGather => unsafe { (f.all_gather)(send, recv, count, data_type, comm, stream) },
            // SAFETY: as above.
            Kind::ReduceScatter(by) => unsafe {
                (f.reduce_scatter)(send, recv, count, data_type, by.number(), comm, stream)
            },
            // SAFETY: as above.
            Kind::AllToAll => unsafe { (f.all_to_all)(send, recv, count, data_type, comm, stream) },
            // SAFETY: as above.
            Kind::Gather(root) => unsafe { (f.gather)(send, recv, count, data_type, root, comm, stream) },
            // SAFETY: as above.
            Kind::Scatter(root) => unsafe { (f.scatter)(send, recv, count, data_type, root, comm, stream) },
            // SAFETY: as above.
            Kind::Send(peer) => unsafe { (f.send)(send, count, data_type, peer, comm, stream) },
            // SAFETY: as above.
            Kind::Recv(peer) => unsafe { (f.recv)(recv, count, data_type, peer, comm, stream) },
        }
    }
}
