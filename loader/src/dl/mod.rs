//! Functions of the C library as code in replicas sees them: `dl*`, thread creation, fork, the environment, the locale.
//!
//! A function that needs its domain gets it from its thunk. So a library that one program opens belongs
//! to that program, whatever thread calls.

mod children;
mod clibrary;
mod descriptors;
mod directories;
mod environment;
mod exit;
mod files;
mod forks;
mod handle;
mod information;
mod keys;
mod locale;
mod mappings;
mod messages;
mod open;
mod programs;
mod record_locks;
mod symbol;
mod system_calls;
pub(crate) mod threads;

pub(crate) use self::clibrary::{answers, c_library_names, c_library_page};
pub(crate) use self::environment::steady as steady_environ;

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use crate::arch;
use crate::domain::Domain;
use crate::id::DomainId;
use crate::replica::thunk::Interposition;
use crate::sys::answering::Function;
use crate::sys::environ::{Environment, PROCESS};
use crate::sys::functions::functions;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::record_locks::Owner;
use crate::system::SYSTEM;
use crate::visible::{address, iterate, unwind};
use crate::walk::Passes;

/// This module's functions that call code of a domain, and hold no lock but the domain's meanwhile: for
/// [`Discardable`](crate::walk::Discardable).
pub fn calling_back() -> [(usize, Passes); 2] {
    [open::dlopen as *const () as usize, threads::run as *const () as usize]
        .map(|address| (address, Passes::Guarded))
}

/// A name, and the definition that references to it bind to.
type Interposed = (&'static str, Interposition);

/// The names that a domain interposes: those of every domain, further ones of a program among several, and further
/// ones if it has an `environment` of its own. That and the `owner` of its record locks must live as long as code of the
/// domain can run.
pub(crate) fn interpositions(
    domain: DomainId,
    is_one_of_many: bool,
    environment: Option<&Environment>,
    owner: &Owner,
) -> Vec<Interposed> {
    let mut all = of_every_domain(domain);
    let (context, owner_context) = (domain.0 as usize, ptr::from_ref(owner).expose_provenance());
    if is_one_of_many {
        all.extend(keys::uses(domain));
        all.extend(interposed(locale::functions(), context));
        all.extend(mappings::uses(domain));
        all.extend(interposed(children::functions(), context));
        all.extend(descriptors::uses(domain));
        all.extend(files::uses());
        all.extend(programs::uses(domain));
        all.extend(interposed(record_locks::functions(), owner_context));
        all.extend(system_calls::uses(owner_context));
    }
    all.extend(environment::changes(environment.unwrap_or(&PROCESS)));
    all.extend(environment.into_iter().flat_map(environment::uses));
    all
}

/// Interpositions by functions that get `context`.
fn interposed(functions: Vec<Function>, context: usize) -> Vec<Interposed> {
    let one = |Function { name, target, arguments }| {
        // SAFETY: `answering` has counted the arguments, and put the context behind them. The signatures are the C library's.
        (name, unsafe { Interposition::with_context(target, arguments, context) })
    };
    functions.into_iter().map(one).collect()
}

/// Whether `found`, the result of a look-up of `name` for code of `domain`, is the C library's definition for the process
/// where the domain has its own. A look-up in the C library itself, or behind the caller (RTLD_NEXT), finds that one.
fn is_of_the_process(domain: &Domain, name: &[u8], found: usize) -> bool {
    let has_its_own = environment::has_its_own(domain, name)
        || domain.is_one_of_many() && domain.interposed(name).is_some();
    let is_in_libc = || {
        let libc = SYSTEM.by_address(libc::gnu_get_libc_version as *const () as usize);
        libc.is_some_and(|libc| libc.span.contains(&found))
    };
    has_its_own && is_in_libc()
}

fn of_every_domain(domain: DomainId) -> Vec<Interposed> {
    let context = domain.0 as usize;
    // SAFETY: each function below has the signature that <dlfcn.h>, <link.h>, <pthread.h>, <unistd.h> or
    // the C++ ABI gives the name that stands beside it, then the context and the caller where it says so;
    // the number is that of the signature's arguments, all of them integers and pointers.
    let plain = |target: *const c_void| unsafe { Interposition::function(target) };
    // SAFETY: as above.
    let with_domain =
        |target, arguments| unsafe { Interposition::with_context(target, arguments, context) };
    // SAFETY: as above.
    let with_caller =
        |target, arguments| unsafe { Interposition::with_caller(target, arguments, context) };
    vec![
        ("__tls_get_addr", plain(arch::tls_get_addr as *const c_void)),
        ("__cxa_atexit", plain(exit::cxa_atexit as *const c_void)),
        ("on_exit", plain(exit::on_exit as *const c_void)),
        ("__cxa_finalize", plain(exit::cxa_finalize as *const c_void)),
        ("__cxa_at_quick_exit", plain(exit::cxa_at_quick_exit as *const c_void)),
        ("__cxa_thread_atexit", plain(exit::cxa_thread_atexit as *const c_void)),
        ("__cxa_thread_atexit_impl", plain(exit::cxa_thread_atexit as *const c_void)),
        ("__register_atfork", plain(forks::register_atfork as *const c_void)),
        ("_dl_find_object", plain(unwind::find_object as *const c_void)),
        ("dl_iterate_phdr", with_domain(iterate::iterate_phdr_in as *const c_void, 2)),
        ("dladdr", plain(address::dladdr as *const c_void)),
        ("dladdr1", plain(address::dladdr1 as *const c_void)),
        ("dlclose", with_domain(open::dlclose as *const c_void, 1)),
        ("dlerror", plain(dlerror as *const c_void)),
        ("dlinfo", with_domain(information::dlinfo as *const c_void, 3)),
        ("dlopen", with_caller(open::dlopen as *const c_void, 2)),
        ("dlsym", with_caller(symbol::dlsym as *const c_void, 2)),
        ("dlvsym", with_caller(symbol::dlvsym as *const c_void, 3)),
        ("fork", with_domain(forks::fork as *const c_void, 0)),
        ("pthread_create", with_domain(threads::pthread_create as *const c_void, 4)),
    ]
}

/// The error that a thread's next `dlerror` returns, and the last one returned, whose text must
/// stay valid until then.
type Errors = (Option<CString>, Option<CString>);

thread_local! {
    static ERROR: RefCell<Errors> = const { RefCell::new((None, None)) };
    /// Whether there is an error that nobody has read. The first use of `ERROR` allocates memory, and an
    /// allocator may call `dlsym` for the allocator behind it; so calls that succeed do not use `ERROR`.
    static PENDING: Cell<bool> = const { Cell::new(false) };
}

/// Errors of threads whose own are gone: an exit handler or a destructor may still load and close.
static LATE_ERROR: Mutex<Errors> = Mutex::new(Rank::Errors, (None, None));

fn with_errors<T>(change: impl FnOnce(&mut Errors) -> T) -> T {
    if ERROR.try_with(|_| ()).is_ok() {
        ERROR.with_borrow_mut(change)
    } else {
        change(&mut LATE_ERROR.lock())
    }
}

/// Forgets an error that nobody has read. Each call of the family begins so (glibc, _dlerror_run).
fn clear_error() {
    if PENDING.replace(false) {
        with_errors(|error| error.0 = None);
    }
}

/// Sets the calling thread's error text.
fn set_error(text: impl ToString) {
    let text = text.to_string().replace('\0', "?");
    with_errors(|error| error.0 = CString::new(text).ok());
    PENDING.set(true);
}

/// `dlerror`: the text of the calling thread's last error, once.
extern "C" fn dlerror() -> *mut c_char {
    PENDING.set(false);
    let ours = with_errors(|error| {
        error.1 = error.0.take();
        error.1.as_ref().map_or(ptr::null(), |text| text.as_ptr())
    });
    if !ours.is_null() {
        return ours.cast_mut();
    }
    // SAFETY: no arguments.
    unsafe { (functions().dlerror)() }
}

/// The text behind a C string pointer; `None` for null.
///
/// # Safety
/// A pointer that is not null points to a NUL-terminated string.
unsafe fn text<'a>(pointer: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
}
