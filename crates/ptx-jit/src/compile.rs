//! A kernel and what it calls, translated and made executable.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module as _, default_libcall_names};
use fakegpu_ptx::{Body, Function, Module, Op, Param};

use crate::context::Context;
use crate::helpers::{self, Helper};
use crate::translate;

/// The answer of a translation: why it failed, as the end of "it ...".
pub(crate) type Answer<T> = Result<T, String>;

/// One thread of a kernel, as code of the host.
pub(crate) type Entry = unsafe extern "C" fn(*mut Context) -> u32;

/// A translated kernel.
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) entry: Entry,
    /// Places that look for memory.
    pub(crate) places: usize,
    pub(crate) local_bytes: usize,
    params: Vec<Param>,
    threads_max: Option<u32>,
    /// The code itself, which stays as long as the process does: a job may outlive whoever started it.
    _code: Code,
}

/// Generated code.
struct Code {
    _module: JITModule,
}

// SAFETY: nothing is changed any more once the code is finished; it is only executed.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("places", &self.places)
            .field("local_bytes", &self.local_bytes)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// Translates a kernel of a module.
    ///
    /// # Errors
    /// Why it cannot be, as the end of "it ...".
    pub fn compile(module: &Module, name: &str) -> Result<Self, String> {
        let function = module.function(name).filter(|function| function.is_entry);
        let function = function.ok_or_else(|| "is not in the PTX of its module".to_owned())?;
        // The compiler asserts what it believes of its input, which others wrote.
        let made = catch_unwind(AssertUnwindSafe(|| Unit::new(module)?.finish(function)));
        made.unwrap_or_else(|_| Err("could not be translated: the compiler panicked".to_owned()))
    }

    /// Its name, mangled.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Bytes of all its parameters.
    pub fn param_bytes(&self) -> usize {
        let end = self.params.last().map_or(0, |param| param.offset + param.bytes);
        usize::try_from(end).unwrap_or(usize::MAX)
    }

    /// Bytes of local memory of a thread.
    pub const fn local_bytes(&self) -> usize {
        self.local_bytes
    }

    /// The most threads of a block that it was compiled for.
    pub const fn threads_max(&self) -> Option<u32> {
        self.threads_max
    }
}

/// What is translated together.
pub(crate) struct Unit<'a> {
    pub(crate) module: &'a Module,
    pub(crate) jit: JITModule,
    pub(crate) helpers: BTreeMap<Helper, FuncId>,
    /// Functions that are called, by their place in the module.
    pub(crate) functions: BTreeMap<usize, FuncId>,
    pub(crate) places: usize,
}

/// A function that the kernel needs.
struct Needed {
    body: Body,
    /// Local memory of it and what it calls.
    local_bytes: u64,
}

impl<'a> Unit<'a> {
    fn new(module: &'a Module) -> Answer<Self> {
        let failed = |error: &dyn fmt::Display| format!("could not be translated: {error}");
        let mut flags = settings::builder();
        let chosen = [
            ("opt_level", "speed"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("enable_probestack", "true"),
            ("probestack_strategy", "inline"),
        ];
        for (name, value) in chosen {
            flags.set(name, value).map_err(|error| failed(&error))?;
        }
        let isa = cranelift_native::builder().map_err(|error| failed(&error))?;
        let isa = isa.finish(settings::Flags::new(flags)).map_err(|error| failed(&error))?;
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        helpers::register(&mut builder);
        let jit = JITModule::new(builder);
        Ok(Self { module, jit, helpers: BTreeMap::new(), functions: BTreeMap::new(), places: 0 })
    }

    fn finish(mut self, kernel: &Function) -> Answer<Kernel> {
        let mut needed = BTreeMap::new();
        let mut callees = BTreeMap::new();
        let body = self.module.body(kernel).map_err(|unsupported| unsupported.reason)?;
        let below = self.need_callees(&body, &mut needed, &mut Vec::new())?;
        let local_bytes = body.frame_bytes + below;
        for at in needed.keys() {
            let signature = self.signature(*at)?;
            let id = self.jit.declare_function(&format!("callee{at}"), Linkage::Local, &signature);
            callees.insert(*at, id.map_err(|error| format!("could not be translated: {error}"))?);
        }
        self.functions = callees;
        for (at, found) in &needed {
            let (Some(function), Some(id)) =
                (self.module.functions.get(*at), self.functions.get(at).copied())
            else {
                continue;
            };
            let signature = self.signature(*at)?;
            translate::define(&mut self, id, signature, function, &found.body)?;
        }
        let mut signature = self.jit.make_signature();
        signature.params.push(AbiParam::new(types::I64));
        signature.returns.push(AbiParam::new(types::I32));
        let declared = self.jit.declare_function("kernel", Linkage::Local, &signature);
        let id = declared.map_err(|error| format!("could not be translated: {error}"))?;
        translate::define(&mut self, id, signature, kernel, &body)?;
        self.jit.finalize_definitions().map_err(|error| format!("could not be made executable: {error}"))?;
        let code = self.jit.get_finalized_function(id);
        // SAFETY: the function was just defined with this signature and calling convention, the platform's own.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code) };
        Ok(Kernel {
            name: kernel.name.clone(),
            entry,
            places: self.places,
            local_bytes: usize::try_from(local_bytes).unwrap_or(usize::MAX),
            params: kernel.params.clone(),
            threads_max: kernel.threads_max,
            _code: Code { _module: self.jit },
        })
    }

    /// Reads what a body calls, and how much local memory that needs at most.
    fn need_callees(
        &self,
        body: &Body,
        needed: &mut BTreeMap<usize, Needed>,
        path: &mut Vec<usize>,
    ) -> Answer<u64> {
        let mut most = 0;
        for instruction in &body.instructions {
            let Op::Call { function, .. } = &instruction.op else { continue };
            most = most.max(self.need(*function, needed, path)?);
        }
        Ok(most)
    }

    fn need(&self, at: usize, needed: &mut BTreeMap<usize, Needed>, path: &mut Vec<usize>) -> Answer<u64> {
        if let Some(known) = needed.get(&at) {
            return Ok(known.local_bytes);
        }
        let function = self.module.functions.get(at).ok_or_else(|| "calls nothing".to_owned())?;
        if path.contains(&at) {
            return Err(format!(
                "calls `{}`, which calls itself (recursion is not translated)",
                function.name
            ));
        }
        if path.len() > CALLS_MAX {
            return Err(format!("calls functions more than {CALLS_MAX} deep"));
        }
        path.push(at);
        let body = self.module.body(function).map_err(|unsupported| unsupported.reason)?;
        let local_bytes = body.frame_bytes + self.need_callees(&body, needed, path)?;
        path.pop();
        needed.insert(at, Needed { body, local_bytes });
        Ok(local_bytes)
    }

    /// The context, the local memory, and the addresses of each result and argument.
    fn signature(&self, at: usize) -> Answer<Signature> {
        let function = self.module.functions.get(at).ok_or_else(|| "calls nothing".to_owned())?;
        let mut signature = self.jit.make_signature();
        let count = 2 + function.returns.len() + function.params.len();
        signature.params.extend((0..count).map(|_| AbiParam::new(types::I64)));
        signature.returns.push(AbiParam::new(types::I32));
        Ok(signature)
    }
}

/// Deeper than this no program calls without recursion, and each call takes a part of the host's stack.
const CALLS_MAX: usize = 64;
