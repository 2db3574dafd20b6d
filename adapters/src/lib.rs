//! Adapters: special handling for individual libraries. The runtime is correct without them and treats all libraries alike;
//! an adapter saves memory, or fixes a library that assumes it is alone in its process.
//!
//! | folder | for | buys | seen with |
//! |---|---|---|---|
//! | [`cuda`] | CUDA's runtime | kernels exist once on a device; device memory has a bound, and is given back | CUDA 13.0 and torch 2.11, on an H200 and on the simulated device |
//! | [`torch`] | torch | no SIGSEGV in `torch.compile` without a device; interpreters with tensors can be settled while others use these | torch 2.11 |
//! | [`blas`] | BLAS and OpenMP | one pool of threads; otherwise each further interpreter brings as many threads as there are cores, less one | numpy 2.2 to 2.4, torch 2.11 |
//! | [`process`] | MPI, UCX, the Java VM | a second interpreter can use them | jpype1 1.7.1, and wheels of November 2026 |
//! | [`memray`] | memray | an ImportError with a reason, where the process would end | the wheel of November 2026 |
//! | [`title`] | setproctitle | several commands set titles, and the environment stays where it is | setproctitle 1.3.8 |
//!
//! To remove an adapter, delete its folder and its lines in this file.

mod blas;
mod cuda;
mod memray;
mod process;
mod title;
mod torch;

use hydrozoa_loader::{Decision, Domain, Interposition, Loader};
use std::ffi::OsString;
use std::num::NonZeroUsize;

pub use title::Prctl;

/// How the loader treats files of a known library.
#[derive(Clone, Copy, Debug)]
pub struct LibraryRule {
    /// Patterns of [`hydrozoa_loader::Policy`] on the file's path.
    pub patterns: &'static [&'static str],
    /// The treatment.
    pub decision: Decision,
    /// The reason, which an error or a survey shows.
    pub reason: &'static str,
}

/// Libraries of a graphics driver, which fits the machine's kernel: the start of each one's name. A sealed application uses the
/// machine's.
pub const OF_THE_MACHINE: [&str; 3] = ["libcuda.so", "libcudadebugger.so", "libnvidia-"];

/// The rules for known libraries. They stand behind those of a user and of the loader.
pub const RULES: [LibraryRule; 6] =
    [memray::RULE, blas::BLAS, blas::OPENMP, cuda::RULE, process::MPI, process::JAVA];

/// A starting interpreter, as adapters see it.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter<'a> {
    /// The loader that makes its domain.
    pub loader: &'a Loader,
    /// Its Python minor version.
    pub minor: u8,
    /// The words of its command line; none in a pool.
    pub command: Option<&'a [OsString]>,
    /// The function that answers its calls of prctl(2).
    pub prctl: Prctl,
    /// The limit on its device memory, in bytes; none for no limit.
    pub device_memory: Option<NonZeroUsize>,
}

/// A replacement for a function or variable of a library.
#[derive(Debug)]
pub struct Answer {
    /// The soname of the library whose references it replaces; none for all libraries of the interpreter.
    pub library: Option<String>,
    /// The function or variable.
    pub symbol: &'static str,
    /// The definition that its references bind to.
    pub interposition: Interposition,
}

impl Answer {
    fn everywhere((symbol, interposition): (&'static str, Interposition)) -> Self {
        Self { library: None, symbol, interposition }
    }
}

/// The adapters of one interpreter. Their answers hold addresses of adapter data, which is never freed.
#[derive(Clone, Copy, Debug)]
pub struct Adapters {
    fake_device: &'static torch::FakeDevice,
    device: Option<&'static cuda::Account>,
}

impl Adapters {
    /// The adapters of a starting interpreter, and the answers that its domain must interpose. Attach the domain
    /// ([`Adapters::attach`]) before it loads libraries.
    pub fn new(interpreter: &Interpreter<'_>) -> (Self, Vec<Answer>) {
        let fake_device: &'static torch::FakeDevice = Box::leak(Box::default());
        let (device, of_cuda) = cuda::answers(interpreter.loader, interpreter.device_memory);
        let mut answers: Vec<_> = of_cuda.into_iter().map(Answer::everywhere).collect();
        answers.push(Answer::everywhere(fake_device.interposition()));
        answers.push(torch::storages());
        answers.extend(title::answers(interpreter));
        (Self { fake_device, device }, answers)
    }

    /// Sets the domain that they answer for.
    pub fn attach(&self, domain: &Domain) {
        self.fake_device.attach(Some(domain));
        if let Some(device) = self.device {
            device.attach(domain);
        }
    }

    /// Call it when Python has ended in the domain, before the destructors of its libraries run.
    pub fn leave(&self) {
        self.fake_device.attach(None);
    }

    /// Releases the device memory, streams and handles that the interpreter still owns.
    ///
    /// # Safety
    /// The domain has ended, with all threads that its code created. Nobody uses anything that it owned on a device.
    pub unsafe fn give_back(self) {
        if let Some(device) = self.device {
            // SAFETY: by contract.
            unsafe { device.give_back() };
        }
    }
}
