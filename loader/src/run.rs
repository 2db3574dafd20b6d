//! Running: constructors in dependency order, destructors in the reverse.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use once_cell::sync::Lazy;

use crate::current;
use crate::needs::Need;
use crate::publish;
use crate::replica::Replica;
use crate::sys::dynamic::{ProgramArguments, environment};

type Constructor = unsafe extern "C-unwind" fn(c_int, *const *const c_char, *const *const c_char);
type Destructor = unsafe extern "C-unwind" fn();

static ARGUMENTS: Lazy<ProgramArguments> = Lazy::new(ProgramArguments::of_process);

/// Runs DT_INIT, then DT_INIT_ARRAY in order (gABI, "Initialization and Termination Functions"),
/// with the arguments that glibc passes.
pub(crate) fn construct(replica: &Replica) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    replica.constructed.store(NEXT.fetch_add(1, Ordering::Relaxed), Ordering::Release);
    let _inside = current::enter(replica.domain);
    let dynamic = &replica.image.dynamic;
    let (at, count) = dynamic.init_array;
    let functions =
        dynamic.init.map(|at| replica.address(at)).into_iter().chain(pointers(replica, at, count));
    for function in functions {
        // SAFETY: the image names the function as a constructor; the replica is relocated and its
        // dependencies' constructors have run.
        unsafe {
            std::mem::transmute::<usize, Constructor>(function)(
                ARGUMENTS.count,
                ARGUMENTS.values,
                environment(),
            );
        }
    }
}

/// Runs DT_FINI_ARRAY in reverse, then DT_FINI.
pub(crate) fn destroy(replica: &Replica) {
    // Once, and only where constructors ran.
    if replica.constructed.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let _inside = current::enter(replica.domain);
    let dynamic = &replica.image.dynamic;
    let (at, count) = dynamic.fini_array;
    let functions: Vec<usize> = pointers(replica, at, count).collect();
    for function in functions.into_iter().rev().chain(dynamic.fini.map(|at| replica.address(at))) {
        // SAFETY: the image names the function as a destructor, and it runs once.
        unsafe { std::mem::transmute::<usize, Destructor>(function)() };
    }
    // Most objects do this themselves, in the destructor that their start files bring.
    replica.registered.finalize();
}

/// Has the destructors of all replicas that are still published run when the process ends.
///
/// glibc runs those of its objects last, in `_dl_fini`, which it registers first; this is
/// registered before the first constructor runs, and so comes after everything that replicas
/// registered by `atexit` and before glibc's.
pub(crate) fn destroy_at_exit() {
    extern "C" fn destroy_all() {
        for replica in in_order_of_destruction(publish::snapshot().0) {
            destroy(&replica);
        }
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler is a function of this crate that needs no argument.
        if unsafe { libc::atexit(destroy_all) } != 0 {
            tracing::warn!("atexit failed: destructors of replicas will not run at exit");
        }
    });
}

/// Those whose constructors have run, the last one first: whoever needs something goes before it.
pub(crate) fn in_order_of_destruction(mut replicas: Vec<Arc<Replica>>) -> Vec<Arc<Replica>> {
    let place = |replica: &Arc<Replica>| replica.constructed.load(Ordering::Acquire);
    replicas.sort_by_key(|replica| std::cmp::Reverse(place(replica)));
    replicas
}

/// The function pointers of an array in the replica's memory; 0 and -1 are no functions (they are
/// what old linkers put at the ends of .ctors and .dtors).
fn pointers(replica: &Replica, at: u64, count: usize) -> impl Iterator<Item = usize> {
    let start = replica.address(at);
    (0..count)
        // SAFETY: the array lies in a segment of the image (validated), which is mapped.
        .map(move |index| unsafe { std::ptr::read_unaligned((start as *const usize).add(index)) })
        .filter(|&function| function != 0 && function != usize::MAX)
}

/// New replicas in the order in which their constructors run: dependencies first, a cycle broken
/// where it is entered, and of those that do not need each other the last one first, as glibc's
/// `_dl_sort_maps` has them.
pub(crate) fn order(replicas: &[Arc<Replica>]) -> Vec<Arc<Replica>> {
    fn visit(
        index: usize,
        replicas: &[Arc<Replica>],
        seen: &mut [bool],
        order: &mut Vec<Arc<Replica>>,
    ) {
        if std::mem::replace(&mut seen[index], true) {
            return;
        }
        for need in replicas[index].needs.get().into_iter().flatten() {
            if let Need::Replica(image) | Need::Filtee(image) = need
                && let Some(next) = replicas.iter().position(|other| other.image.id == *image)
            {
                visit(next, replicas, seen, order);
            }
        }
        order.push(replicas[index].clone());
    }
    let mut seen = vec![false; replicas.len()];
    let mut ordered = Vec::with_capacity(replicas.len());
    for index in (0..replicas.len()).rev() {
        visit(index, replicas, &mut seen, &mut ordered);
    }
    // glibc honours DF_1_INITFIRST of one object of a load.
    if let Some(first) = ordered.iter().rposition(|replica| replica.image.dynamic.init_first) {
        ordered[..=first].rotate_right(1);
    }
    ordered
}
