//! One C library, three times: three sets of variables, one copy of the code.
//!
//! ```sh
//! cargo run -p hydrozoa-loader --example counters
//! ```
//!
//! The library is written, compiled with `cc` and loaded three times. Each replica counts for
//! itself, in its globals, its statics and its thread-local variables; the last lines show which
//! parts of its file the kernel keeps once.

use std::error::Error;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

use hydrozoa_loader::{Domain, Library, Loader, OpenFlags};

const SOURCE: &str = r#"
    #include <stdio.h>

    int total;                               /* a global variable */
    static __thread int in_this_thread;      /* one in each thread, of each replica */
    static char name[16] = "nobody";

    __attribute__((constructor)) static void begin(void) { total = 100; }

    void introduce(const char *as) { snprintf(name, sizeof name, "%s", as); }

    int increment(void)
    {
        static int calls;                    /* a static of a function */
        printf("  %-6s total %d, calls %d, in this thread %d\n",
               name, ++total, ++calls, ++in_this_thread);
        fflush(stdout);
        return total;
    }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Folder::new()?;
    let path = compile(&folder)?;
    let loader = Loader::builder().build()?;
    let mut replicas = Vec::new();
    for name in ["red", "green", "blue"] {
        let domain = loader.domain(name).build()?;
        // SAFETY: SOURCE changes its own variables and prints; it may be loaded several times, and
        // nobody changes the file while this program runs.
        let library = unsafe { domain.open(&path, OpenFlags::NOW)? };
        replicas.push(Replica::of(domain, library, name)?);
    }

    // As often as its place says, the last one from another thread.
    for (times, replica) in (1..).zip(&replicas) {
        for _ in 0..times {
            (replica.increment)();
        }
    }
    let last = &replicas[2];
    std::thread::scope(|scope| scope.spawn(|| (last.increment)()).join())
        .map_err(|_| "the thread panicked")?;

    let totals: Vec<i32> = replicas.iter().map(Replica::total).collect();
    println!("totals {totals:?}, at {:x?}", replicas.iter().map(|r| r.total).collect::<Vec<_>>());
    if totals != [101, 102, 104] {
        return Err(format!("the replicas have counted together: {totals:?}").into());
    }
    show_mappings(&path)
}

/// A library in a domain of its own, and the functions called in it.
struct Replica {
    increment: extern "C" fn() -> i32,
    total: usize,
    // The fields above are valid while these are held.
    _library: Library,
    _domain: Domain,
}

impl Replica {
    fn of(domain: Domain, library: Library, name: &str) -> Result<Replica, Box<dyn Error>> {
        // SAFETY: SOURCE declares `void introduce(const char *)`.
        let introduce: extern "C" fn(*const std::ffi::c_char) =
            unsafe { std::mem::transmute(library.symbol("introduce")?) };
        introduce(std::ffi::CString::new(name)?.as_ptr());
        Ok(Replica {
            // SAFETY: SOURCE declares `int increment(void)`.
            increment: unsafe {
                std::mem::transmute::<*const c_void, extern "C" fn() -> i32>(
                    library.symbol("increment")?,
                )
            },
            total: library.symbol("total")? as usize,
            _library: library,
            _domain: domain,
        })
    }

    fn total(&self) -> i32 {
        // SAFETY: SOURCE declares `int total`, which only `increment` writes, on threads that ended.
        unsafe { *(self.total as *const i32) }
    }
}

/// Prints the replicas' mappings of the file that hold code, with the memory that is their own.
fn show_mappings(path: &Path) -> Result<(), Box<dyn Error>> {
    let path = path.canonicalize()?;
    let mut code = None;
    for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
        // A mapping's own line has its address range first; lines about it have a name with a colon.
        if !line.split_whitespace().next().unwrap_or_default().ends_with(':') {
            let here = line.contains(" r-xp ") && line.ends_with(path.to_str().unwrap_or_default());
            code = here.then(|| line.split_whitespace().next().unwrap_or_default().to_owned());
        } else if let (Some(range), Some(size)) = (&code, line.strip_prefix("Anonymous:")) {
            println!("code at {range}: {} of its own", size.trim());
        }
    }
    Ok(())
}

fn compile(folder: &Folder) -> Result<PathBuf, Box<dyn Error>> {
    let (source, library) = (folder.0.join("counters.c"), folder.0.join("libcounters.so"));
    std::fs::write(&source, SOURCE)?;
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .status()
        .map_err(|error| format!("cc cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("cc: {status}").into());
    }
    Ok(library)
}

/// A directory that is removed with the program.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("hydrozoa-counters-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
