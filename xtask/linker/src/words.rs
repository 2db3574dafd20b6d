//! One loader, one object: every relocated word, as the object that it points into and the offset there.
//!
//! Runs in a process of its own, so that a library's constructors do not interfere with another's.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CString, c_int, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use hydrozoa_loader::{Domain, Loader, OpenFlags, testing};

use super::glibc;
use super::machine::{self, Kind};
use super::object::{self, Relocated};

/// Options of the worker.
#[derive(Args)]
pub(super) struct Arguments {
    #[arg(value_enum)]
    by: By,
    /// The libpython to load before
    python: PathBuf,
    /// The object
    object: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    Hydrozoa,
    Glibc,
}

/// The owner of words that contain the loader's own function for the name that they refer to.
pub(super) const INTERPOSED: &str = "interposed";

/// Precedes the owner of words for which the loader preferred the definition of a system object to the object's own
/// weak or unique one. The system loader confirms that definition.
pub(super) const UNIFIED: &str = "unified:";

/// Precedes the owner if it is the program or a library that the program was linked with, except the C library.
pub(super) const PROGRAM: &str = "program:";

/// Ends the line of a word that points to a unique definition of the symbol's name.
pub(super) const UNIQUE: &str = " unique";

/// Stands for a function that glibc binds at its first call.
pub(super) const LATE: &str = "late";

/// A loaded object's place in this process.
struct Owner {
    name: String,
    file: PathBuf,
    /// Its unique definitions, filled at the first query.
    uniques: OnceCell<HashMap<String, u64>>,
    /// The system loader's name of the object; `None` for an object of ours.
    path: Option<CString>,
    start: usize,
    end: usize,
    bias: usize,
    /// glibc's module id, or our module word; many objects may share it. `None` without TLS.
    tls_module: Option<u64>,
    /// The base of the offset words of our own modules.
    tls_offset: u64,
    /// The calling thread's block, as an offset from the thread pointer.
    tls_block: Option<u64>,
    /// The address of the calling thread's block.
    block: Option<usize>,
}

/// Writes one line for each place: `index owner offset`. The owner is `-` for a value in no object and [`INTERPOSED`]
/// for a reference that the loader answers itself. A thread-local word has `tls:` before the owner. A reference to a
/// definition that the loader unified has [`UNIFIED`] before all of that.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let bytes = std::fs::read(&arguments.object)?;
    let places = object::places(&bytes)?;
    let c_library = ["libc.so.6", "libm.so.6"];
    let program: BTreeSet<String> = system_owners()
        .into_iter()
        .map(|owner| owner.name)
        .filter(|name| !c_library.contains(&name.as_str()))
        .collect();
    let Loaded { bias, owners, keep, lazily } = match arguments.by {
        By::Hydrozoa => load_by_hydrozoa(&arguments.python, &arguments.object)?,
        By::Glibc => load_by_glibc(&arguments.python, &arguments.object)?,
    };
    let is_interposed = |place: &Relocated, word: usize| {
        keep.as_ref()
            .is_some_and(|(domain, _)| testing::is_interposition(domain, &place.symbol, word))
    };
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for (index, place) in places.iter().enumerate() {
        let at = bias.wrapping_add(place.offset as usize);
        // SAFETY: the loader accepted the relocation, so its place is mapped memory of the object.
        let (word, after) = unsafe {
            match place.kind {
                Kind::Half => (u64::from(std::ptr::read_unaligned(at as *const u32)), 0),
                _ => (
                    std::ptr::read_unaligned(at as *const u64),
                    std::ptr::read_unaligned((at + 8) as *const u64),
                ),
            }
        };
        let found = meaning(place, at, word, after, &owners, arguments.by);
        let owner = found.owner.map_or("-", |owner| &owner.name);
        let Meaning { what, offset, target, .. } = found;
        let unique = match found.owner {
            Some(owner) if place.unique && owner.has_unique(&place.symbol, offset) => UNIQUE,
            _ => "",
        };
        if lazily && place.kind == Kind::Function {
            writeln!(output, "{index} {LATE}")?;
        } else if arguments.by == By::Glibc && program.contains(owner) {
            writeln!(output, "{index} {PROGRAM}{what}{owner} {offset:x}")?;
        } else if is_interposed(place, word as usize) {
            writeln!(output, "{index} {INTERPOSED} 0")?;
        } else if keep.is_some()
            && place.vague
            && found.owner.is_some_and(|owner| owner.defines(&place.symbol, target))
        {
            writeln!(output, "{index} {UNIFIED}{what}{owner} {offset:x}")?;
        } else {
            writeln!(output, "{index} {what}{owner} {offset:x}{unique}")?;
        }
    }
    output.flush()?;
    drop(output);
    // Destructors of half-initialised objects are not part of the comparison, so they do not run.
    // SAFETY: ends the process; everything was written.
    unsafe { libc::_exit(0) }
}

/// The meaning of a word.
struct Meaning<'a> {
    /// The kind of word; empty for an address.
    what: &'static str,
    /// The object that it refers to, if any.
    owner: Option<&'a Owner>,
    /// The offset in that object.
    offset: u64,
    /// The address that the word points to in this thread.
    target: usize,
}

fn meaning<'a>(
    place: &Relocated,
    at: usize,
    word: u64,
    after: u64,
    owners: &'a [Owner],
    by: By,
) -> Meaning<'a> {
    let module = |word: u64, offset: u64| {
        let called_so = owners.iter().filter(|owner| owner.tls_module == Some(word));
        called_so.min_by_key(|owner| offset.wrapping_sub(owner.tls_offset))
    };
    let variable = |owner: Option<&Owner>, index: [u64; 2]| {
        // SAFETY: the index contains an id that the system loader gave to a loaded object.
        owner
            .filter(|owner| owner.path.is_some())
            .map_or(0, |_| unsafe { __tls_get_addr(index.as_ptr()) as usize })
    };
    match place.kind {
        Kind::Module => {
            let owner = module(word, after);
            let offset = match owner {
                // The offset word of a reference to the object's own data has no relocation.
                Some(owner) if place.symbol.is_empty() => after.wrapping_sub(owner.tls_offset),
                Some(_) => 0,
                None => word,
            };
            Meaning { what: "tls:", owner, offset, target: variable(owner, [word, after]) }
        }
        Kind::Offset => {
            // SAFETY: the module word stands before the offset word (psABI, `tls_index`).
            let before = unsafe { std::ptr::read_unaligned((at - 8) as *const u64) };
            let owner = module(before, word);
            let offset = word.wrapping_sub(owner.map_or(0, |owner| owner.tls_offset));
            Meaning { what: "tls-offset:", owner, offset, target: variable(owner, [before, word]) }
        }
        Kind::ThreadPointer => {
            let owner = owners
                .iter()
                .filter_map(|owner| Some((owner, owner.tls_block?)))
                .filter(|(_, block)| (word as i64) >= (*block as i64))
                .max_by_key(|(_, block)| *block as i64)
                .filter(|(owner, _)| by == By::Glibc || owner.tls_block.is_some());
            Meaning {
                what: "tp:",
                owner: owner.map(|(owner, _)| owner),
                offset: owner.map_or(word, |(_, block)| word.wrapping_sub(block)),
                target: testing::thread_pointer().wrapping_add(word as usize),
            }
        }
        Kind::Descriptor => {
            // SAFETY: the loader has written the descriptor, and the object stays loaded.
            let offset = unsafe { machine::described(at) };
            let target = testing::thread_pointer().wrapping_add(offset);
            // The block that begins last before the variable. An undefined weak variable is in none.
            let blocks = owners.iter().filter_map(|owner| Some((owner, owner.block?)));
            let found =
                blocks.filter(|(_, block)| *block <= target).max_by_key(|(_, block)| *block);
            let offset = found.map_or(target, |(_, block)| target - block) as u64;
            Meaning { what: "described:", owner: found.map(|(owner, _)| owner), offset, target }
        }
        _ => {
            let owner =
                owners.iter().find(|owner| (owner.start..owner.end).contains(&(word as usize)));
            // An emulator's vDSO has the addresses where it lies, and so the bias 0.
            let origin = |owner: &Owner| if owner.bias == 0 { owner.start } else { owner.bias };
            let bias = owner.map_or(0, |owner| origin(owner) as u64);
            let addend = if place.kind == Kind::Sum { place.addend as usize } else { 0 };
            let target = (word as usize).wrapping_sub(addend);
            Meaning { what: "", owner, offset: word.wrapping_sub(bias), target }
        }
    }
}

impl Owner {
    /// Whether its file has a unique definition of `symbol` (STB_GNU_UNIQUE) at `offset`.
    fn has_unique(&self, symbol: &str, offset: u64) -> bool {
        let uniques = self.uniques.get_or_init(|| object::uniques(&self.file).unwrap_or_default());
        uniques.get(symbol) == Some(&offset)
    }

    /// Whether the system loader finds the definition of `symbol` in this object, one of its own, at `target`.
    fn defines(&self, symbol: &str, target: usize) -> bool {
        let Some(path) = &self.path else { return false };
        let Ok(symbol) = CString::new(symbol) else { return false };
        // SAFETY: both names are NUL-terminated; the object is loaded, nothing is run.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            !handle.is_null() && libc::dlsym(handle, symbol.as_ptr()) as usize == target
        }
    }
}

/// An object's name in the written lines.
pub(super) fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    object::with_own_names(&name).replace(' ', "_")
}

/// The loaded object and all other loaded objects.
struct Loaded {
    bias: usize,
    owners: Vec<Owner>,
    /// Keeps our objects loaded.
    keep: Option<(Domain, testing::Relocated)>,
    /// Whether glibc opens the object only if functions may be missing, and then binds none of them yet.
    lazily: bool,
}

fn load_by_hydrozoa(python: &Path, object: &Path) -> anyhow::Result<Loaded> {
    let loader = Loader::builder().build()?;
    let domain = loader.domain("differential").build()?;
    // SAFETY: libpython may be loaded several times: all of its state is in its own variables. The
    // objects are those of wheels; a process of its own compares each of them.
    unsafe { domain.open(python, OpenFlags::NOW | OpenFlags::GLOBAL)? };
    // SAFETY: as above.
    let relocate = |flags| unsafe { testing::relocate(&domain, object, flags) };
    // The same request as to glibc below: functions that no library defines are bound late, and only if necessary.
    let relocated = relocate(OpenFlags::NOW).or_else(|_| relocate(OpenFlags::LAZY))?;
    let mut owners: Vec<Owner> = relocated
        .members()
        .into_iter()
        .chain(testing::members(&domain))
        .map(|member| {
            let (tls_module, tls_offset) = member.tls.unzip();
            Owner {
                name: base_name(&member.path),
                file: member.path.clone(),
                uniques: OnceCell::new(),
                path: None,
                start: member.base,
                end: member.base + member.size,
                bias: member.bias,
                tls_module,
                tls_offset: tls_offset.unwrap_or(0),
                tls_block: member.tls_block,
                block: member.block,
            }
        })
        .collect();
    let bias = owners[0].bias;
    // Several modules of ours share the arena's module word, so the object itself comes first.
    owners.extend(system_owners());
    Ok(Loaded { bias, owners, keep: Some((domain, relocated)), lazily: false })
}

fn load_by_glibc(python: &Path, object: &Path) -> anyhow::Result<Loaded> {
    open_by_glibc(python, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
    let inert = object::without_constructors(object)?;
    let lazily = open_by_glibc(&inert, libc::RTLD_NOW).is_err();
    let opened = if lazily { open_by_glibc(&inert, libc::RTLD_LAZY) } else { Ok(()) };
    std::fs::remove_file(&inert)?;
    opened?;
    let mut owners = system_owners();
    let name = base_name(object);
    let own = owners
        .iter()
        .position(|owner| owner.name == name)
        .context("it is not in the list of loaded objects")?;
    owners[own].file = object.to_owned();
    Ok(Loaded { bias: owners[own].bias, owners, keep: None, lazily })
}

fn open_by_glibc(path: &Path, flags: c_int) -> anyhow::Result<()> {
    glibc::open(path, flags).map(drop).map_err(|text| anyhow::anyhow!("glibc: {text}"))
}

fn system_owners() -> Vec<Owner> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        list: *mut c_void,
    ) -> c_int {
        // SAFETY: glibc passes a valid record, and `list` is the vector of the caller.
        let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<Owner>>()) };
        let name = if info.dlpi_name.is_null() {
            PathBuf::new()
        } else {
            // SAFETY: a name that is not null is NUL-terminated.
            let name = unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) };
            PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()))
        };
        let path = CString::new(name.as_os_str().as_bytes()).ok();
        let name = name.canonicalize().unwrap_or(name);
        // SAFETY: glibc reports the address and number of the program headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let (Some(start), Some(end)) = (
            loads().map(|header| header.p_vaddr).min(),
            loads().map(|header| header.p_vaddr + header.p_memsz).max(),
        ) else {
            return 0;
        };
        let bias = info.dlpi_addr as usize;
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // Calls glibc's own function: dlpi_tls_data is null before the thread's first access.
        let block = (info.dlpi_tls_modid != 0).then(|| {
            let index = [info.dlpi_tls_modid as u64, 0];
            // SAFETY: the module id is that of a loaded object.
            let address = unsafe { __tls_get_addr(index.as_ptr()) };
            address as usize
        });
        list.push(Owner {
            name: base_name(&name),
            file: name,
            uniques: OnceCell::new(),
            path,
            start: bias + start as usize,
            // Whole pages, as for our objects: an address directly behind the last byte (`_end`) belongs to the object.
            end: (bias + end as usize).next_multiple_of(page),
            bias,
            tls_module: (info.dlpi_tls_modid != 0).then_some(info.dlpi_tls_modid as u64),
            tls_offset: 0,
            tls_block: block.map(|address| address.wrapping_sub(testing::thread_pointer()) as u64),
            block,
        });
        0
    }
    let mut list: Vec<Owner> = Vec::new();
    // SAFETY: the callback has the right signature and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut list).cast()) };
    list
}

unsafe extern "C" {
    fn __tls_get_addr(index: *const u64) -> *mut c_void;
}
