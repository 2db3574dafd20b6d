//! `__tls_get_addr`, as code of the general-dynamic model calls it.

use std::ffi::{c_int, c_long, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hydrozoa_loader::{Loader, OpenFlags};

use crate::fixture::{Folder, SystemLibrary};
use crate::rounds::Rounds;

/// The call sequence that the psABI gives for the model, written in assembly: a compiler would move it out of the loop.
const SOURCE: &str = r#"
#define ASK_MANY(variable)                                                                 \
    int *ask_##variable(long times) {                                                      \
        int *address = 0;                                                                  \
        for (long i = 0; i < times; i++) {                                                 \
            asm volatile("data16 leaq " #variable "@tlsgd(%%rip), %%rdi\n\t"               \
                         ".word 0x6666\n\trex64\n\tcall __tls_get_addr@PLT"               \
                         : "=a"(address)                                                   \
                         :                                                                 \
                         : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "cc",     \
                           "memory");                                                      \
        }                                                                                  \
        return address;                                                                    \
    }
extern "C" {
#if INITIALISED
__thread int variable = 1;
#elif LARGE
__thread int variable, others[2000];
int *other() { return others; }
#else
__thread int variable;
#endif
void set(int value) { variable = value; }
// The call needs an aligned stack. Leaf functions do not have one.
__attribute__((noinline, force_align_arg_pointer)) ASK_MANY(variable)
}
"#;

/// Number of reads of the address in one round.
const TIMES: c_long = 200_000;

#[derive(clap::Args)]
pub struct Options {
    /// How many rounds
    #[arg(long, default_value_t = 101)]
    rounds: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let folder = Folder::new("thread-local")?;
    let loader = Loader::builder().build()?;
    let mut outcome = Ok(());
    for (name, what, kind, promised) in [
        ("libzeroed.so", "__tls_get_addr, a small block of zeroes", "-DZEROED=1", 0.7),
        ("libinitialised.so", "__tls_get_addr, an initialised block", "-DINITIALISED=1", 0.7),
        ("liblarge.so", "__tls_get_addr, a block of 8 KB", "-DLARGE=1", 0.7),
    ] {
        let library = folder.compile(name, SOURCE, &[kind])?;
        let by_glibc = SystemLibrary::open(&library, libc::RTLD_NOW | libc::RTLD_LOCAL)?;
        let domain = loader.domain(name).build()?;
        // SAFETY: the source above; it keeps its state in its own variables.
        let replica = unsafe { domain.open(&library, OpenFlags::NOW)? };
        let glibc = Asker::new(by_glibc.symbol(c"set")?, by_glibc.symbol(c"ask_variable")?);
        let ours = Asker::new(replica.symbol("set")?, replica.symbol("ask_variable")?);
        let rounds = Rounds::measure(options.rounds, || ours.time(), || glibc.time())?;
        outcome = outcome.and(rounds.report(what, TIMES as f64 * 1e-9, "ns", promised));
    }
    outcome
}

/// The functions of the source above.
struct Asker(extern "C" fn(c_long) -> *const c_int);

impl Asker {
    fn new(set: *const c_void, ask: *const c_void) -> Asker {
        // SAFETY: the source declares these signatures.
        let (set, ask) = unsafe {
            (
                std::mem::transmute::<*const c_void, extern "C" fn(c_int)>(set),
                std::mem::transmute::<*const c_void, extern "C" fn(c_long) -> *const c_int>(ask),
            )
        };
        set(3);
        Asker(ask)
    }

    fn time(&self) -> Result<Duration> {
        let start = Instant::now();
        let address = (self.0)(black_box(TIMES));
        let elapsed = start.elapsed();
        // SAFETY: the address of the thread's own variable.
        ensure!(unsafe { *address } == 3, "__tls_get_addr gave the address of another variable");
        Ok(elapsed)
    }
}
