//! The time that the kernel alone takes to give a process private pages. A load whose pages are ready when it returns
//! cannot take less.

use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hydrozoa_measure::samples::median;

/// The lower bound for data of a given size.
pub struct Floor {
    content: Vec<u8>,
    populated: Vec<f64>,
    copied: Vec<f64>,
}

impl Floor {
    /// For `bytes` bytes in whole pages.
    pub fn new(bytes: usize) -> Result<Floor> {
        ensure!(bytes > 0, "a replica without private pages has no floor");
        Ok(Floor { content: vec![7; bytes], populated: Vec::new(), copied: Vec::new() })
    }

    /// Maps fresh memory in one request, fills it and unmaps it.
    pub fn measure(&mut self) -> Result<()> {
        let length = self.content.len();
        let start = Instant::now();
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        let populated = start.elapsed();
        ensure!(memory != libc::MAP_FAILED, "mmap: {}", io::Error::last_os_error());
        // SAFETY: the memory was just mapped with this length.
        unsafe { ptr::copy_nonoverlapping(self.content.as_ptr(), memory.cast(), length) };
        let copied = start.elapsed();
        // SAFETY: nothing refers to the memory.
        unsafe { libc::munmap(memory, length) };
        self.populated.push(populated.as_secs_f64());
        self.copied.push(copied.as_secs_f64());
        Ok(())
    }

    /// Prints one line with the times, and with their ratios to the time of glibc's load.
    pub fn report(&self, glibc: Duration) {
        let line = |durations: &[f64]| {
            let duration = median(durations);
            format!("{:.1} us, {:.3}", duration * 1e6, duration / glibc.as_secs_f64())
        };
        println!(
            "the kernel alone, {} KiB of fresh pages: {} of glibc's time; filled too: {}",
            self.content.len() / 1024,
            line(&self.populated),
            line(&self.copied),
        );
    }
}
