//! One run of a case, in a process of its own: by glibc, or in one or three copies by the loader.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, Mutex};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_loader::{Class, Domain, Interposition, Library, Loader, OpenFlags, Policy, current};
use serde::{Deserialize, Serialize};

use super::directives::Open;
use crate::glibc::open as open_by_glibc;

/// A run and how to do it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub mode: Mode,
    /// The libraries' folder; it is the working directory.
    pub folder: PathBuf,
    /// The folder of the copies' outputs: `N.out`, `N.symbols`, and `failures`.
    pub results: PathBuf,
    pub support: PathBuf,
    pub libraries: Vec<String>,
    pub opens: Vec<Open>,
    pub steps: usize,
    pub close: bool,
    pub quick_exit: bool,
    pub check_sharing: bool,
    pub expects_error: bool,
}

/// Which loader, and how many copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    Glibc,
    One,
    Program,
    Interleaved,
    Threads,
}

impl Mode {
    pub(super) fn copies(self) -> usize {
        match self {
            Mode::Glibc | Mode::One | Mode::Program => 1,
            Mode::Interleaved | Mode::Threads => 3,
        }
    }
}

/// The exit status after a failed load. The error's text is in `N.error`.
pub(super) const LOAD_FAILED: i32 = 86;
/// The descriptor of the first copy's output.
const FIRST_OUTPUT: i32 = 100;

/// Options of the hidden subcommand.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The job as JSON
    job: String,
}

/// Runs the job of this process.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let job: Job = serde_json::from_str(&arguments.job)?;
    std::env::set_current_dir(&job.folder)?;
    for copy in 0..job.mode.copies() {
        let file = File::create(job.results.join(format!("{copy}.out")))?;
        // SAFETY: duplicates a descriptor of this process onto an unused number.
        let status = unsafe { libc::dup2(file.as_raw_fd(), FIRST_OUTPUT + copy as i32) };
        ensure!(status >= 0, "dup2: {}", std::io::Error::last_os_error());
    }
    match job.mode {
        Mode::Glibc => by_glibc(&job)?,
        Mode::One | Mode::Program | Mode::Interleaved => interleaved(&job)?,
        Mode::Threads => in_threads(&job)?,
    }
    if job.quick_exit {
        unsafe extern "C" {
            fn quick_exit(status: c_int) -> !;
        }
        // SAFETY: the handlers are the case's, made for this.
        unsafe { quick_exit(0) };
    }
    Ok(())
}

/// After a failed load: writes the reason and ends the process without running anything more.
fn give_up(job: &Job, copy: usize, reason: &str) -> ! {
    // One thread's exit must not interrupt another's writing.
    static ENDING: Mutex<()> = Mutex::new(());
    let _until_the_end = ENDING.lock();
    let _ = fs::write(job.results.join(format!("{copy}.error")), reason);
    std::process::exit(LOAD_FAILED)
}

fn by_glibc(job: &Job) -> Result<()> {
    // Libraries that can be unloaded influence the order of destruction (glibc, elf/dl-sort-maps.c). The loader uses
    // an interposition instead, which does not. So this library is opened with RTLD_NODELETE.
    open_by_glibc(&job.support, libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NODELETE)
        .map_err(anyhow::Error::msg)?;
    let mut handles = Vec::new();
    for open in &job.opens {
        let flags = if open.lazy { libc::RTLD_LAZY } else { libc::RTLD_NOW }
            | if open.global { libc::RTLD_GLOBAL } else { 0 };
        match open_by_glibc(&Path::new("./").join(&open.file), flags) {
            Ok(handle) => handles.push(handle),
            Err(reason) => give_up(job, 0, &reason),
        }
    }
    let last = *handles.last().context("something is opened")?;
    let find = |name: &str| -> usize {
        let Ok(name) = CString::new(name) else { return 0 };
        // SAFETY: the handle is open and the name NUL-terminated.
        unsafe { libc::dlsym(last, name.as_ptr()) as usize }
    };
    let symbols = symbols(job, find, by_dladdr);
    fs::write(job.results.join("0.symbols"), render(&symbols))?;
    let test = find("test");
    for _ in 0..job.steps {
        call(test)?;
    }
    if job.close {
        for handle in handles.into_iter().rev() {
            // SAFETY: the handle is open and closed once.
            unsafe { libc::dlclose(handle) };
        }
    }
    Ok(())
}

/// The object that contains `address`, and the offset in it.
fn by_dladdr(address: usize) -> Option<(String, usize)> {
    // SAFETY: zero is a value of every field.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the place is valid; any address may be asked for.
    if unsafe { libc::dladdr(address as *const c_void, &mut info) } == 0 || info.dli_fname.is_null()
    {
        return None;
    }
    // SAFETY: a name that is not null is NUL-terminated.
    let name = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
    Some((base_name(Path::new(&name)), address - info.dli_fbase as usize))
}

fn base_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The address of a symbol and its meaning.
struct Meaning {
    address: usize,
    owner: Option<(String, usize)>,
}

/// The meaning of each name that a library of the case defines.
fn symbols(
    job: &Job,
    find: impl Fn(&str) -> usize,
    owner: impl Fn(usize) -> Option<(String, usize)>,
) -> BTreeMap<String, Meaning> {
    let mut meanings = BTreeMap::new();
    for library in &job.libraries {
        let Ok(bytes) = fs::read(library) else { continue };
        let Ok(elf) = goblin::elf::Elf::parse(&bytes) else { continue };
        for symbol in elf.dynsyms.iter() {
            // A thread-local symbol has an address for each thread.
            if symbol.st_shndx == 0 || symbol.st_type() == goblin::elf::sym::STT_TLS {
                continue;
            }
            let Some(name) = elf.dynstrtab.get_at(symbol.st_name) else { continue };
            // These mark ends; their address may be that of the next object.
            if matches!(name, "_end" | "_edata" | "__bss_start") {
                continue;
            }
            let address = find(name);
            let absolute = symbol.st_shndx == 0xfff1;
            let owner = if absolute { None } else { owner(address) };
            meanings.insert(name.to_owned(), Meaning { address, owner });
        }
    }
    meanings
}

fn render(meanings: &BTreeMap<String, Meaning>) -> String {
    meanings
        .iter()
        .map(|(name, meaning)| match &meaning.owner {
            Some((owner, offset)) => format!("{name} {owner}+{offset:#x}\n"),
            None => format!("{name} {:#x}\n", meaning.address),
        })
        .collect()
}

fn call(test: usize) -> Result<()> {
    ensure!(test != 0, "no function `test`");
    // SAFETY: the cases declare `void test(void)`.
    let test: extern "C-unwind" fn() = unsafe { std::mem::transmute(test) };
    test();
    Ok(())
}

/// The objects that a domain has opened.
struct Copy {
    domain: Domain,
    libraries: Vec<Library>,
}

/// The output function of one domain; `output` is its descriptor.
unsafe extern "C" fn case_write(text: *const c_char, length: usize, output: usize) {
    // SAFETY: the case passes a text of this length.
    unsafe { libc::write(output as c_int, text.cast(), length) };
}

fn loader(job: &Job) -> Result<Loader> {
    let pattern = format!("{}/*", job.folder.display());
    let policy = Policy::default().with(&pattern, Class::Replicate, "a library of the case");
    Ok(Loader::builder().policy(policy).build()?)
}

fn domain(job: &Job, loader: &Loader, copy: usize) -> Result<Domain> {
    let output = FIRST_OUTPUT as usize + copy;
    // SAFETY: cases declare `void case_write(const char *, size_t)`; the context is the output.
    let write = unsafe { Interposition::with_context(case_write as *const c_void, 2, output) };
    let builder = loader.domain(&format!("copy {copy}")).interpose("case_write", write);
    let builder = if job.mode == Mode::Program { builder.extend_program() } else { builder };
    Ok(builder.build()?)
}

/// Opens the libraries of the case.
fn open(job: &Job, copy: usize, domain: Domain) -> Result<Copy> {
    // SAFETY: until the guard's end only code of this domain runs.
    let _inside = unsafe { current::enter(domain.id()) };
    let mut libraries = Vec::new();
    for open in &job.opens {
        let mut flags = if open.lazy { OpenFlags::LAZY } else { OpenFlags::NOW };
        if open.global {
            flags = flags | OpenFlags::GLOBAL;
        }
        let path = Path::new("./").join(&open.file);
        // SAFETY: this process runs one case; its libraries are built to be loaded in copies. If a case crashes, the
        // parent process reports it.
        match unsafe { domain.open(&path, flags) } {
            Ok(library) => libraries.push(library),
            Err(error) => {
                if let Err(trace) = nothing_remains(job, &domain) {
                    bail!("after the error `{error}`: {trace}");
                }
                give_up(job, copy, &error.to_string());
            }
        }
    }
    Ok(Copy { domain, libraries })
}

/// Checks that a failed load of the first library left no replica and no mapping.
fn nothing_remains(job: &Job, domain: &Domain) -> Result<()> {
    if !job.expects_error || job.opens.len() > 1 {
        return Ok(());
    }
    ensure!(domain.replicas().is_empty(), "a replica is still in the domain");
    let maps = fs::read_to_string("/proc/self/maps")?;
    for library in &job.libraries {
        let path = job.folder.join(library).display().to_string();
        // An image is parsed from a read-only view of the file. The view stays in the cache.
        let left = maps.lines().filter(|line| line.ends_with(&path) && !line.contains(" r--s "));
        ensure!(left.count() == 0, "{library} is still mapped");
    }
    Ok(())
}

impl Copy {
    fn find(&self, name: &str) -> usize {
        self.libraries
            .last()
            .and_then(|library| library.symbol(name).ok())
            .map_or(0, |address| address as usize)
    }

    fn owner(&self, address: usize) -> Option<(String, usize)> {
        self.domain
            .replicas()
            .into_iter()
            .find(|replica| (replica.base..replica.base + replica.size).contains(&address))
            .map(|replica| (base_name(&replica.path), address - replica.base))
            .or_else(|| by_dladdr(address))
    }

    fn symbols(&self, job: &Job) -> BTreeMap<String, Meaning> {
        symbols(job, |name| self.find(name), |address| self.owner(address))
    }

    fn step(&self) -> Result<()> {
        // SAFETY: until the guard's end only code of this domain runs.
        let _inside = unsafe { current::enter(self.domain.id()) };
        call(self.find("test"))
    }
}

fn interleaved(job: &Job) -> Result<()> {
    let loader = loader(job)?;
    let copies: Vec<Copy> = (0..job.mode.copies())
        .map(|copy| open(job, copy, domain(job, &loader, copy)?))
        .collect::<Result<_>>()?;
    examine(job, &copies)?;
    for _ in 0..job.steps {
        for copy in &copies {
            copy.step()?;
        }
    }
    finish(job, copies)
}

fn in_threads(job: &Job) -> Result<()> {
    let loader = loader(job)?;
    let domains: Vec<Domain> =
        (0..job.mode.copies()).map(|copy| domain(job, &loader, copy)).collect::<Result<_>>()?;
    let barrier = Barrier::new(domains.len());
    let copies: Vec<Copy> = std::thread::scope(|scope| {
        let threads: Vec<_> = domains
            .into_iter()
            .enumerate()
            .map(|(copy, domain)| {
                let barrier = &barrier;
                scope.spawn(move || -> Result<Copy> {
                    barrier.wait();
                    let copy = open(job, copy, domain)?;
                    for _ in 0..job.steps {
                        copy.step()?;
                    }
                    Ok(copy)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    examine(job, &copies)?;
    finish(job, copies)
}

/// Writes the meaning of the symbols. Asserts which memory copies share and which they do not.
fn examine(job: &Job, copies: &[Copy]) -> Result<()> {
    let all: Vec<_> = copies.iter().map(|copy| copy.symbols(job)).collect();
    for (index, symbols) in all.iter().enumerate() {
        fs::write(job.results.join(format!("{index}.symbols")), render(symbols))?;
    }
    if !job.check_sharing {
        return Ok(());
    }
    for (index, symbols) in all.iter().enumerate() {
        for (name, meaning) in symbols {
            let owned = |meaning: &Meaning| {
                meaning.owner.as_ref().is_some_and(|owner| {
                    job.libraries.iter().any(|library| base_name(Path::new(library)) == owner.0)
                })
            };
            if !owned(meaning) {
                continue;
            }
            for other in &all[index + 1..] {
                ensure!(
                    other.get(name).is_none_or(|other| other.address != meaning.address),
                    "{name} is at one address in two copies"
                );
            }
        }
    }
    shared_text(job, copies)
}

/// Every executable mapping of the libraries consists of pages of the page cache, in every copy.
fn shared_text(job: &Job, copies: &[Copy]) -> Result<()> {
    let mut mapped: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut text: Option<PathBuf> = None;
    for line in fs::read_to_string("/proc/self/smaps")?.lines() {
        let rights = line.split_whitespace().nth(1).unwrap_or_default();
        if rights.len() == 4 && rights.ends_with('p') {
            let path = line.split_whitespace().nth(5).map(PathBuf::from);
            text = path.filter(|path| rights.contains('x') && path.starts_with(&job.folder));
            if let Some(path) = &text {
                *mapped.entry(path.clone()).or_default() += 1;
            }
        } else if let (Some(path), Some(size)) = (&text, line.strip_prefix("Anonymous:")) {
            ensure!(size.trim() == "0 kB", "a text page of {} is private", path.display());
        }
    }
    for replica in copies.iter().flat_map(|copy| copy.domain.replicas()) {
        if let Some(count) = mapped.get_mut(&replica.path) {
            *count = count.saturating_sub(1);
        }
    }
    Ok(())
}

fn finish(job: &Job, copies: Vec<Copy>) -> Result<()> {
    if !job.close {
        return Ok(());
    }
    for copy in copies {
        let paths: Vec<_> = copy.domain.replicas();
        drop(copy.libraries);
        // SAFETY: until the guard's end only code of this domain runs.
        let _inside = unsafe { current::enter(copy.domain.id()) };
        // SAFETY: the case no longer runs, and the cases hand out no pointers.
        unsafe { copy.domain.close() };
        let maps = fs::read_to_string("/proc/self/maps")?;
        for replica in paths {
            let start = format!("{:x}-", replica.base);
            let left = maps.lines().any(|line| {
                line.starts_with(&start) && line.ends_with(&replica.path.display().to_string())
            });
            ensure!(!left, "{} is mapped after its domain was closed", replica.path.display());
        }
    }
    Ok(())
}
