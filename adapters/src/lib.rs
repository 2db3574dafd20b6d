//! What is done for single libraries of which something is known. The runtime is right without all of it, and treats any
//! library alike; an adapter saves memory, or keeps a library right that counts on being alone in its process.
//!
//! | folder | for | buys | seen with |
//! |---|---|---|---|
//! | [`cuda`] | CUDA's runtime | kernels exist once on a device; device memory has a bound, and is given back | CUDA 13.0 and torch 2.11, on the simulated device |
//! | [`torch`] | torch | no SIGSEGV in `torch.compile` without a device; 1.3 MiB for each interpreter that ended | torch 2.11 |
//! | [`title`] | setproctitle | several commands set titles, and the environment stays where it is | setproctitle 1.3.8 |
//!
//! To take an adapter out, delete its folder and its lines in this file.

mod cuda;
mod title;
mod torch;

use hydrozoa_loader::{Domain, Interposition, Loader};
use std::ffi::OsString;
use std::num::NonZeroUsize;

pub use title::Prctl;
pub use torch::BLOCKS;

/// An interpreter that starts, as far as adapters ask.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter<'a> {
    /// The loader that makes its domain.
    pub loader: &'a Loader,
    /// Its minor version of Python.
    pub minor: u8,
    /// The words of a command; none in a pool.
    pub command: Option<&'a [OsString]>,
    /// What answers prctl(2) in it.
    pub prctl: Prctl,
    /// Bytes of device memory that its code may have, if not as many as there are.
    pub device_memory: Option<NonZeroUsize>,
}

/// What stands in the place of a library's function.
#[derive(Debug)]
pub struct Answer {
    /// The soname of the library whose references are meant; all libraries of the interpreter if there is none.
    pub library: Option<String>,
    /// The function or variable.
    pub symbol: &'static str,
    /// What its references bind to.
    pub interposition: Interposition,
}

impl Answer {
    fn everywhere((symbol, interposition): (&'static str, Interposition)) -> Self {
        Self { library: None, symbol, interposition }
    }
}

/// The adapters of one interpreter. Their answers hold addresses of what they keep, which is never freed.
#[derive(Clone, Copy, Debug)]
pub struct Adapters {
    fake_device: &'static torch::FakeDevice,
    device: Option<&'static cuda::Account>,
}

impl Adapters {
    /// Those of an interpreter that starts, and what its domain has to interpose. The domain is to be attached before it has
    /// libraries ([`Adapters::attach`]).
    pub fn new(interpreter: &Interpreter<'_>) -> (Self, Vec<Answer>) {
        let fake_device: &'static torch::FakeDevice = Box::leak(Box::default());
        let (device, of_cuda) = cuda::answers(interpreter.loader, interpreter.device_memory);
        let mut answers: Vec<_> = of_cuda.into_iter().map(Answer::everywhere).collect();
        answers.push(Answer::everywhere(fake_device.interposition()));
        answers.extend(title::answers(interpreter));
        (Self { fake_device, device }, answers)
    }

    /// Notes the domain, for which they answer.
    pub fn attach(&self, domain: &Domain) {
        self.fake_device.attach(Some(domain));
        if let Some(device) = self.device {
            device.attach(domain);
        }
    }

    /// Python has ended in the domain. Destructors of its libraries have not run yet.
    pub fn leave(&self) {
        self.fake_device.attach(None);
    }

    /// Gives back what the interpreter still has.
    ///
    /// # Safety
    /// The domain has ended, with all threads that its code has created. Nobody uses what it had on a device.
    pub unsafe fn give_back(self) {
        if let Some(device) = self.device {
            // SAFETY: by contract.
            unsafe { device.give_back() };
        }
    }
}
