//! The adapter of the process, and its members: the interpreters that share one libtorch.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use hydrozoa_loader::{Domain, DomainId, Library, Loader, ReplicaInfo};

use crate::heap::Heap;

use super::device;
use super::libpython::LibPython;
pub(super) use super::locks::lock;
use super::release::{Layout, Release};
use super::symbols::Symbols;

/// Why policy `shared` cannot be used. Policy `isolated` works in each case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The release's object layouts are not known.
    #[error(
        "torch {version} is not known to the adapter of policy `shared` (it knows 2.11); \
         use policy `isolated`, which works with every release"
    )]
    UnknownRelease {
        /// `torch.__version__`, and where that torch is.
        version: String,
    },
    /// The program is built with `panic = "abort"`.
    #[error(
        "policy `shared` passes C++ exceptions of torch through functions of Rust, which end the \
         process in a program that is built with panic = \"abort\"; remove that from the \
         profile in Cargo.toml, or use policy `isolated`"
    )]
    PanicAborts,
    /// The process already shares another torch: another release, or the same one in another folder.
    #[error(
        "this process already shares torch {serving}; torch {version} can join it only under policy `isolated`"
    )]
    OtherRelease {
        /// The release that was asked for, and where it is.
        version: String,
        /// The one in use, and where it is.
        serving: String,
    },
    /// The package `torch` does not have its own libtorch: a distribution keeps it elsewhere.
    #[error(
        "torch {version} has no {}: policy `shared` serves torch as its wheels lay it out; use policy `isolated`",
        path.display()
    )]
    NoLibrary {
        /// `torch.__version__`, and where that torch is.
        version: String,
        /// The file that is missing.
        path: std::path::PathBuf,
    },
    /// The program's own Python has imported this torch.
    #[error(
        "the program's own Python has loaded {}, whose operators are registered with libtorch: interpreters \
         cannot register them once more under policy `shared`; use policy `isolated`",
        path.display()
    )]
    ProgramHasTorch {
        /// The program's libtorch_python.
        path: std::path::PathBuf,
    },
    /// libtorch could not be opened.
    #[error("{}: cannot load torch for policy `shared`: {source}; install torch again", path.display())]
    Load {
        /// The library's file.
        path: std::path::PathBuf,
        /// The loader's error.
        source: hydrozoa_loader::Error,
    },
    /// The build lacks functions that the adapter calls.
    #[error(
        "torch {version} does not export {} of the functions that policy `shared` calls, e.g. {}; \
         it was built differently from the release of that name: use policy `isolated`",
        missing.len(), missing[0]
    )]
    MissingSymbols {
        /// `torch.__version__`.
        version: String,
        /// Their mangled names; never empty.
        missing: Vec<&'static str>,
    },
    /// An interpreter's libpython lacks functions of CPython's documented API.
    #[error(
        "{} does not define {}: it is not CPython's shared library, or not a whole one; \
         install Python again, or name another one",
        path.display(), missing.join(", ")
    )]
    NotPython {
        /// The library's file.
        path: std::path::PathBuf,
        /// The functions' names; never empty.
        missing: Vec<&'static str>,
    },
}

/// What makes one libtorch serve every interpreter of the process.
///
/// A process has one libtorch and so one adapter. Locks are taken in the order GIL, adapter,
/// dispatcher. Nothing that can take a GIL runs while a lock of the adapter is held.
#[derive(Debug)]
pub(crate) struct Adapter {
    loader: Loader,
    release: Release,
    layout: &'static Layout,
    symbols: OnceLock<Symbols>,
    on_load: OnLoad,
    process: u32,
    members: Mutex<Members>,
}

/// What is done when libraries of torch may have been loaded. It may be done again.
pub(crate) type OnLoad = fn(&Adapter);

#[derive(Debug, Default)]
struct Members {
    by_domain: HashMap<DomainId, &'static Member>,
    /// Which places in [`super::cells::Cells`] are taken.
    used: Vec<bool>,
    joined: u64,
}

static ADAPTER: OnceLock<Arc<Adapter>> = OnceLock::new();

impl Adapter {
    /// The process's adapter, for a release.
    ///
    /// # Errors
    /// [`AdapterError::PanicAborts`], [`AdapterError::UnknownRelease`], [`AdapterError::NoLibrary`],
    /// [`AdapterError::ProgramHasTorch`] and [`AdapterError::OtherRelease`].
    pub(crate) fn of_process(
        loader: &Loader,
        release: &Release,
        on_load: OnLoad,
    ) -> Result<Arc<Adapter>, AdapterError> {
        // An exception that reaches a function of such a program, also an `extern "C-unwind"` one, is
        // "panic in a function that cannot unwind" (RFC 2945 of Rust). Cargo builds all crates of a
        // program with one strategy, so this crate's is the program's.
        if cfg!(panic = "abort") {
            return Err(AdapterError::PanicAborts);
        }
        let layout = release
            .layout()
            .ok_or_else(|| AdapterError::UnknownRelease { version: release.to_string() })?;
        let path = release.library();
        if !path.is_file() {
            return Err(AdapterError::NoLibrary { version: release.to_string(), path });
        }
        let bridge = path.with_file_name("libtorch_python.so");
        if loader.system_has(&bridge) {
            return Err(AdapterError::ProgramHasTorch { path: bridge });
        }
        let adapter = ADAPTER.get_or_init(|| {
            Arc::new(Adapter {
                loader: loader.clone(),
                release: release.clone(),
                layout,
                symbols: OnceLock::new(),
                on_load,
                process: std::process::id(),
                members: Mutex::default(),
            })
        });
        if !adapter.release.is(release) {
            let (version, serving) = (release.to_string(), adapter.release.to_string());
            return Err(AdapterError::OtherRelease { version, serving });
        }
        Ok(Arc::clone(adapter))
    }

    /// Loads libtorch and checks that it exports what the adapter calls. A build that does not is refused
    /// before an interpreter depends on it.
    ///
    /// # Errors
    /// [`AdapterError::Load`] and [`AdapterError::MissingSymbols`].
    pub(crate) fn verify(&self) -> Result<(), AdapterError> {
        if self.symbols.get().is_some() {
            return Ok(());
        }
        let path = self.release.library();
        // SAFETY: libtorch of a release that the adapter knows; torch itself opens it in every process.
        unsafe { self.loader.open_by_system(&path) }
            .map_err(|source| AdapterError::Load { path, source })?;
        let symbols = self.resolve().map_err(|missing| AdapterError::MissingSymbols {
            version: self.release.to_string(),
            missing,
        })?;
        self.load_linear_algebra();
        // Another thread may have done the same; both tables are alike.
        let _ = self.symbols.set(symbols);
        self.notice_libraries();
        Ok(())
    }

    /// Loads libtorch's linear algebra for CUDA, where there is a device.
    ///
    /// libtorch itself loads it in the first call that needs it. If two threads make that call at once, one of them gets the
    /// error "lazy wrapper should be called at most once" (issue 90613 of PyTorch). Interpreters would often be such threads.
    fn load_linear_algebra(&self) {
        let path = self.release.library().with_file_name("libtorch_cuda_linalg.so");
        if !device::is_visible() || !path.is_file() {
            return;
        }
        // SAFETY: a library of a release that the adapter knows; libtorch itself opens it in every process that uses it.
        if let Err(error) = unsafe { self.loader.open_by_system(&path) } {
            tracing::debug!(%error, "libtorch will load its linear algebra for CUDA when it is called");
        }
    }

    /// Makes a member for an interpreter that is about to be created. It is never freed: replicas of
    /// a finalized interpreter stay mapped, and their destructors may call its thunks.
    ///
    /// A `strict` member must not change a setting of the process while others live.
    /// Its C++ objects are in `heap`, if it has one.
    pub(crate) fn join(
        self: &Arc<Adapter>,
        strict: bool,
        heap: Option<&'static Heap>,
    ) -> &'static Member {
        let mut members = lock(&self.members);
        let index = members.used.iter().position(|used| !used).unwrap_or(members.used.len());
        if index == members.used.len() {
            members.used.push(true);
        } else {
            members.used[index] = true;
        }
        members.joined += 1;
        let serial = members.joined;
        drop(members);
        Box::leak(Box::new(Member {
            index,
            serial,
            strict,
            heap,
            identity: OnceLock::new(),
            domain: Mutex::new(None),
            retired: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            interpreter: AtomicPtr::new(std::ptr::null_mut()),
            libpython: OnceLock::new(),
        }))
    }

    /// The functions of libtorch, or the names of those that no system object of the process defines.
    fn resolve(&self) -> Result<Symbols, Vec<&'static str>> {
        Symbols::resolve(|name| self.loader.system_symbol(name))
    }

    /// Whether one interpreter at most shares libtorch now.
    pub(super) fn is_alone(&self) -> bool {
        lock(&self.members).by_domain.len() <= 1
    }

    /// Whether this is the process that the interpreters live in, and not a forked child of it.
    pub(super) fn is_in_its_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// To be called when libraries of torch may have been loaded.
    pub(super) fn notice_libraries(&self) {
        (self.on_load)(self);
    }

    pub(super) fn loader(&self) -> &Loader {
        &self.loader
    }

    pub(super) fn layout(&self) -> &'static Layout {
        self.layout
    }
}

/// One interpreter, as the adapter knows it.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its place in tables. Another interpreter gets the place when this one has retired.
    index: usize,
    /// Its number in the process, which no other interpreter ever gets.
    serial: u64,
    strict: bool,
    heap: Option<&'static Heap>,
    /// Its domain's number and name.
    identity: OnceLock<(DomainId, String)>,
    /// Its domain, until it retires: a domain that has ended may give back what it has.
    domain: Mutex<Option<Domain>>,
    retired: AtomicBool,
    kept: AtomicBool,
    /// The `c10::impl::PyInterpreter` of the interpreter's libtorch_python.
    pub(super) interpreter: AtomicPtr<c_void>,
    libpython: OnceLock<LibPython>,
}

impl Member {
    /// Ties the member to the domain that was built with its interpositions, before anything is
    /// opened in it.
    ///
    /// # Panics
    /// If called twice.
    pub(crate) fn attach(&'static self, domain: &Domain) {
        let adapter = adapter();
        lock(&adapter.members).by_domain.insert(domain.id(), self);
        let identity = (domain.id(), domain.name().to_owned());
        self.identity.set(identity).expect("a member has one domain");
        *lock(&self.domain) = Some(domain.clone());
    }

    /// Notes the interpreter's libpython, before anything that calls it is opened in the domain.
    ///
    /// # Errors
    /// [`AdapterError::NotPython`].
    pub(crate) fn runs(&'static self, libpython: &Library) -> Result<(), AdapterError> {
        let functions =
            LibPython::resolve(|name| libpython.symbol(name).ok()).map_err(|missing| {
                AdapterError::NotPython { path: libpython.path().to_owned(), missing }
            })?;
        // An interpreter has one libpython; opened again, it has the same addresses.
        let _ = self.libpython.set(functions);
        Ok(())
    }

    /// The functions of the interpreter's own libpython.
    pub(super) fn libpython(&self) -> &LibPython {
        self.libpython.get().expect("libpython is noted before anything that calls it is opened")
    }

    /// Whether the member has retired; from now on it has.
    pub(super) fn begin_retirement(&self) -> bool {
        !self.retired.swap(true, Ordering::AcqRel)
    }

    /// Gives the member's place to others. Its entries in the tables of the adapter are gone.
    pub(super) fn end_retirement(&self) {
        self.interpreter.store(std::ptr::null_mut(), Ordering::Release);
        let adapter = adapter();
        let mut members = lock(&adapter.members);
        if let Some(domain) = self.domain_id() {
            members.by_domain.remove(&domain);
        }
        members.used[self.index] = false;
        drop(members);
        let domain = lock(&self.domain).take();
        drop(domain);
    }

    /// Notes that libtorch may keep objects of the interpreter beyond its end, which use its code and its data.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Whether libtorch may keep objects of the interpreter beyond its end.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Its domain's number, also after the end.
    pub(super) fn domain_id(&self) -> Option<DomainId> {
        Some(self.identity.get()?.0)
    }

    /// The replicas of its domain.
    pub(super) fn replicas(&self) -> Vec<ReplicaInfo> {
        let domain = lock(&self.domain).clone();
        domain.map_or_else(Vec::new, |domain| domain.replicas())
    }

    /// Memory of its heap, which ends with the interpreter; null where it has none, or that has no room.
    pub(super) fn allocate(&self, bytes: usize) -> *mut u8 {
        self.heap.map_or(std::ptr::null_mut(), |heap| heap.allocate(bytes).cast())
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        let identity = self.identity.get();
        identity.map_or_else(|| format!("#{}", self.index), |(_, name)| name.clone())
    }
}

/// The process's adapter. Thunks exist only in domains that were built with one.
pub(super) fn adapter() -> &'static Arc<Adapter> {
    ADAPTER.get().expect("thunks of the adapter exist only after it")
}

/// The functions of libtorch, looked up at first use. A thunk runs only after libtorch was loaded,
/// since the library that calls it needs libtorch.
pub(super) fn symbols() -> &'static Symbols {
    let adapter = adapter();
    if let Some(symbols) = adapter.symbols.get() {
        return symbols;
    }
    let symbols = adapter.symbols.get_or_init(|| {
        adapter.resolve().unwrap_or_else(|missing| {
            // Only reached without `verify`. The caller is C++, which takes no error here.
            panic!("torch {} does not export {missing:?}; use policy `isolated`", adapter.release)
        })
    });
    adapter.notice_libraries();
    symbols
}

/// The torch that interpreters share, if any do.
pub(super) fn release() -> Option<&'static Release> {
    Some(&ADAPTER.get()?.release)
}

/// The functions of libtorch, if it is loaded and was used.
pub(super) fn loaded_symbols() -> Option<&'static Symbols> {
    ADAPTER.get()?.symbols.get()
}

/// The address of a function of libtorch that [`Symbols`] does not list.
pub(super) fn system_symbol(name: &str) -> *const c_void {
    adapter()
        .loader
        .system_symbol(name)
        .unwrap_or_else(|| panic!("torch lacks {name}; use policy `isolated`"))
}

/// The interpreter whose code the calling thread runs.
pub(super) fn current() -> Option<&'static Member> {
    thread_local! {
        static LAST: Cell<Option<(DomainId, &'static Member)>> = const { Cell::new(None) };
    }
    let domain = hydrozoa_loader::current::domain()?;
    if let Some((last, member)) = LAST.get()
        && last == domain
    {
        return Some(member);
    }
    let adapter = ADAPTER.get()?;
    let member = *lock(&adapter.members).by_domain.get(&domain)?;
    LAST.set(Some((domain, member)));
    Some(member)
}

/// Throws `c10::Error`, which libtorch_python turns into a `RuntimeError`.
pub(super) fn fail(message: &str) -> ! {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: three C strings. The function copies them and throws; unwinding frees the message.
    unsafe {
        (symbols().check_fail)(
            c"hydrozoa".as_ptr(),
            c"the adapter of torch policy `shared`".as_ptr(),
            0,
            message.as_ptr(),
        )
    }
}
