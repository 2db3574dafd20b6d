//! Running: constructors in dependency order, destructors in the reverse.

use crate::current;
use crate::domain::replica_entry::ReplicaEntry;
use crate::domain::{self, Domain, DomainState, order};
use crate::error::{Error, Result};
use crate::replica::Replica;
use crate::sys::environ::PROCESS;
use crate::sys::guard;
use crate::sys::lock::{Once, undisturbed};
use crate::visible::{exception, publish};

/// Runs DT_INIT, then DT_INIT_ARRAY in order (gABI, "Initialization and Termination Functions"),
/// with the arguments that glibc passes. Runs them once.
///
/// # Errors
/// [`Error::Exception`] if one of them throws. The others do not run. glibc's loader cannot handle a
/// constructor's exception either: the process ends in `std::terminate`.
pub(crate) fn construct(domain: &Domain, replica: &Replica) -> Result<()> {
    let begins = domain.0.state.lock().entries.of_mut(replica).is_some_and(ReplicaEntry::begin);
    if !begins {
        return Ok(());
    }
    // SAFETY: until the guard's end only code of the replica runs.
    let _inside = unsafe { current::enter(replica.domain) };
    let _constructing = domain.0.exits.constructing();
    let dynamic = &replica.image.dynamic;
    let (at, count) = dynamic.init_array;
    let functions =
        dynamic.init.map(|at| replica.address(at)).into_iter().chain(pointers(replica, at, count));
    let environment = domain.0.environment.as_deref().unwrap_or(&PROCESS);
    let arguments = environment.arguments();
    for function in functions {
        let arguments =
            [arguments.count as usize, arguments.values.addr(), environment.pointers().addr()];
        // SAFETY: the image names the function as a constructor; the replica is relocated and its
        // dependencies' constructors have run.
        if let Err(thrown) = unsafe { guard::call(function, arguments) } {
            let exception = exception::consume(thrown, free_of(domain));
            if let Some(entry) = domain.0.state.lock().entries.of_mut(replica) {
                entry.failure = Some(exception.as_str().into());
            }
            return Err(Error::constructor(replica, &exception));
        }
    }
    Ok(())
}

/// The `free` of the domain's replicas.
fn free_of(domain: &Domain) -> exception::Free {
    let everywhere = domain.0.everywhere.iter().find(|entry| entry.symbol == "free");
    // SAFETY: the caller that interposed the symbol has vouched for a function like it.
    everywhere.map_or(libc::free, |entry| unsafe {
        std::mem::transmute::<usize, exception::Free>(entry.address)
    })
}

/// Runs DT_FINI_ARRAY in reverse, then DT_FINI.
pub(crate) fn destroy(domain: &Domain, replica: &Replica) {
    // Once, and only where constructors ran.
    let ends = domain.0.state.lock().entries.of_mut(replica).is_some_and(ReplicaEntry::end);
    if !ends {
        return;
    }
    // SAFETY: until the guard's end only code of the replica runs.
    let _inside = unsafe { current::enter(replica.domain) };
    let dynamic = &replica.image.dynamic;
    let (at, count) = dynamic.fini_array;
    let functions: Vec<usize> = pointers(replica, at, count).collect();
    let name = format!("{}: a destructor", replica.image.path.display());
    for function in functions.into_iter().rev().chain(dynamic.fini.map(|at| replica.address(at))) {
        // SAFETY: the image names the function as a destructor, and it runs once.
        unsafe { guard::call_or_end(&name, function, [0; 3]) };
    }
    // Most objects do this themselves, in the destructor that their start files add.
    let span = replica.base..replica.base + replica.memory.length();
    domain.0.exits.finalize(|handle| span.contains(&handle));
    replica.registered.finalize();
}

/// Registers the destructors of all published replicas for the end of the process.
///
/// glibc runs its objects' destructors last, in `_dl_fini`, which it registers first. This handler is
/// registered before the first constructor runs. It therefore runs after everything that replicas
/// register by `atexit`, and before glibc's.
pub(crate) fn destroy_at_exit() {
    extern "C" fn destroy_all() {
        let replicas = publish::snapshot().0;
        let is_any_busy = domain::is_any_busy();
        let left_behind = |domain: &Domain| {
            domain.is_one_of_many() && (current::is_left_behind(domain.id()) || domain.is_busy())
                || domain.is_commons() && is_any_busy
        };
        let (programs, others): (Vec<_>, Vec<_>) = replicas
            .into_iter()
            .filter_map(|replica| Some((domain::by_id(replica.domain)?, replica)))
            // Neither their destructors run nor the exit handlers that these call.
            .filter(|(domain, _)| !left_behind(domain))
            .partition(|(domain, _)| domain.0.program);
        let placed = others.into_iter().map(|(domain, replica)| {
            let state = domain.0.state.lock();
            (state.entries.of(&replica).and_then(ReplicaEntry::place), replica)
        });
        for replica in order::last_first(placed.collect()) {
            if let Some(domain) = domain::by_id(replica.domain) {
                destroy(&domain, &replica);
            }
        }
        // A domain that extends the program uses glibc's order, which begins from load order.
        if let Some((domain, _)) = programs.first() {
            let ordered = {
                let DomainState { entries, uses, .. } = &mut *domain.0.state.lock();
                // A destructor that closes unloads nothing any more (glibc, _dl_fini).
                entries.replicas().for_each(|replica| uses.open(replica.image.id));
                order::of_destruction(entries, uses)
            };
            for replica in ordered {
                destroy(domain, &replica);
            }
        }
    }
    // Two threads may register this at once. Destructors run once even so.
    static REGISTERED: Once<()> = Once::new();
    REGISTERED.get_or_init(|| {
        // SAFETY: the handler is a function of this crate that needs no argument.
        if undisturbed(|| unsafe { libc::atexit(destroy_all) }) != 0 {
            tracing::warn!("atexit failed: destructors of replicas will not run at exit");
        }
    });
}

/// The function pointers of an array in the replica's memory, without the 0 and -1 that old linkers
/// put at the ends of .ctors and .dtors.
fn pointers(replica: &Replica, at: u64, count: usize) -> impl Iterator<Item = usize> {
    let start = replica.address(at);
    (0..count)
        // SAFETY: the array lies in a segment of the image (validated), which is mapped.
        .map(move |index| unsafe { std::ptr::read_unaligned((start as *const usize).add(index)) })
        .filter(|&function| function != 0 && function != usize::MAX)
}
