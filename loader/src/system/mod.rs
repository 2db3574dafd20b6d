//! System objects: the objects of glibc's loader, indexed so that references can bind to them.

pub(crate) mod search;

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};
use crate::image::SymbolTable;
use crate::image::symbols::Tables;
use crate::sys::dynamic::{self, LoadedObject, SystemHandle};
use crate::sys::file::{FileId, is_refusal};
use crate::sys::lock::{Guard, Mutex, Once, Rank};
use goblin::elf::dynamic::*;
use goblin::elf::program_header::{PT_DYNAMIC, PT_LOAD};

/// Identifies a system object for as long as the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SystemId(u32);

/// An object that the system loader mapped: the executable, libc, a library shared by all domains.
pub(crate) struct SystemObject {
    pub id: SystemId,
    pub base: usize,
    /// Addresses from its first segment to the end of its last.
    pub span: Range<usize>,
    pub path: PathBuf,
    pub soname: String,
    file_name: OsString,
    pub needed: Vec<String>,
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    pub symbols: SymbolTable<'static>,
    /// Its TLS module id; 0 if it has none.
    pub tls_module: usize,
    /// Its file, or the fact that it has none, once that is known.
    file: Once<Option<FileId>>,
    dynamic: Vec<(u64, u64)>,
}

impl std::fmt::Debug for SystemObject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SystemObject")
            .field("path", &self.path)
            .field("base", &format_args!("{:#x}", self.base))
            .finish_non_exhaustive()
    }
}

impl SystemObject {
    /// Address of the table that dynamic entry `tag` points to.
    pub(crate) fn table(&self, tag: u64) -> Option<usize> {
        self.value(tag).map(|value| self.absolute(value))
    }

    /// Its file; none for the vDSO, and if the file has been removed since.
    pub(crate) fn file_id(&self) -> Option<FileId> {
        let known = self.file.get_or_try_init(|| match FileId::of_path(&self.path) {
            // Ask again later.
            Err(error) if is_refusal(&error) => Err(error),
            other => Ok(other.ok()),
        });
        known.ok().copied().flatten()
    }

    /// Whether it is this file, as glibc tells files apart (`_dl_map_object_from_fd`): by device and inode.
    pub(crate) fn comes_from(&self, id: FileId) -> bool {
        self.file_id().is_some_and(|own| own.object() == id.object())
    }

    /// Whether its DT_NEEDED names `other`.
    pub(crate) fn needs(&self, other: &SystemObject) -> bool {
        self.needed.iter().any(|name| other.is_called(name))
    }

    /// Whether it is one of glibc's libraries. A program that has such a library has it in its global scope.
    pub(crate) fn is_c_library(&self) -> bool {
        matches!(self.soname.as_str(), "libc.so.6" | "libm.so.6")
    }

    /// The result of `dlsym` on this object.
    pub(crate) fn ask(&self, name: &[u8]) -> Option<usize> {
        let path = CString::new(self.path.as_os_str().as_bytes()).ok()?;
        let handle = SystemHandle::open(&path, libc::RTLD_LAZY | libc::RTLD_NOLOAD).ok()?;
        (handle.base() == Some(self.base)).then(|| handle.symbol(&CString::new(name).ok()?))?
    }

    /// Whether it is the object that is mapped at `base` from the file at `path`.
    fn is(&self, base: usize, path: &Path) -> bool {
        self.base == base && self.path == path
    }

    /// Whether `name` is its soname or its file's name.
    fn is_called(&self, name: &str) -> bool {
        self.soname == name || self.file_name == *name
    }

    /// The value of dynamic entry `tag`.
    pub(crate) fn value(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// glibc relocates the addresses of the dynamic section in place, but not those of the vDSO
    /// and of objects whose section is read-only.
    fn absolute(&self, value: u64) -> usize {
        let value = value as usize;
        if value < self.base { self.base + value } else { value }
    }
}

/// The system loader's objects.
pub(crate) static SYSTEM: System = System::new();

/// The index of system objects, brought up to date when the system loader's counters change.
pub(crate) struct System {
    state: Mutex<SystemState>,
}

struct SystemState {
    generation: (u64, u64),
    objects: Vec<Arc<SystemObject>>,
    /// By soname and by file name, the first of each.
    by_name: BTreeMap<OsString, Arc<SystemObject>>,
    /// The executable, the preloaded objects, and their needs.
    global: Vec<Arc<SystemObject>>,
    /// Handles that keep opened objects loaded.
    opened: BTreeMap<PathBuf, usize>,
}

impl System {
    pub(crate) const fn new() -> System {
        let state = SystemState {
            generation: (0, 0),
            objects: Vec::new(),
            by_name: BTreeMap::new(),
            global: Vec::new(),
            opened: BTreeMap::new(),
        };
        System { state: Mutex::new(Rank::System, state) }
    }

    /// All system objects, the executable first.
    pub(crate) fn objects(&self) -> Vec<Arc<SystemObject>> {
        let state = self.current();
        state.objects.clone()
    }

    /// The executable, the preloaded objects, and their needs: the scope that every object sees.
    pub(crate) fn global(&self) -> Vec<Arc<SystemObject>> {
        let state = self.current();
        state.global.clone()
    }

    /// Whether the program began with this file: as its executable, as a preloaded object, or as a need of these.
    pub(crate) fn began_with(&self, id: FileId) -> Option<Arc<SystemObject>> {
        self.current().global.iter().find(|object| object.comes_from(id)).cloned()
    }

    /// Makes the objects that are loaded at this moment the global scope, in the order of glibc's list. At
    /// the start of a program these are the executable, preloaded objects, and their needs.
    pub(crate) fn settle_program(&self) {
        let mut state = self.current();
        // The vDSO is in the list, and in no scope.
        state.global =
            state.objects.iter().filter(|object| object.file_id().is_some()).cloned().collect();
    }

    /// The object that holds this address.
    pub(crate) fn by_address(&self, address: usize) -> Option<Arc<SystemObject>> {
        let state = self.current();
        state.objects.iter().find(|object| object.span.contains(&address)).cloned()
    }

    /// The loaded object with this soname (or file name), if any.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<SystemObject>> {
        let state = self.current();
        state.by_name(name)
    }

    /// The loaded object that is this file, if any.
    pub(crate) fn by_file(&self, id: FileId) -> Option<Arc<SystemObject>> {
        let state = self.current();
        state.objects.iter().find(|object| object.comes_from(id)).cloned()
    }

    /// The loaded object that is the file at `path`, if any. A path without a file belongs to no object.
    pub(crate) fn by_path(&self, path: &Path) -> Result<Option<Arc<SystemObject>>> {
        match FileId::of_path(path) {
            Ok(id) => Ok(self.by_file(id)),
            Err(source) if is_refusal(&source) => {
                Err(Error::Io { object: path.to_owned(), action: "stat", source })
            }
            Err(_) => Ok(None),
        }
    }

    /// Whether a loaded object is this very file, unchanged since.
    pub(crate) fn holds(&self, id: FileId) -> bool {
        self.current().objects.iter().any(|object| object.file_id() == Some(id))
    }

    /// Loads `path` by the system loader, for good, and returns its entry. A second call returns the same
    /// object.
    pub(crate) fn open(&self, path: &Path, flags: i32) -> Result<Arc<SystemObject>> {
        self.open_handle(path, flags).map(|(object, _)| object)
    }

    /// As [`System::open`], with the system loader's handle, which stays open.
    pub(crate) fn open_handle(
        &self,
        path: &Path,
        flags: i32,
    ) -> Result<(Arc<SystemObject>, usize)> {
        let failure = |message: String| Error::System { object: path.to_owned(), message };
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| failure("its name holds a NUL byte".into()))?;
        // The lock is not held here: constructors may come back to this index.
        let handle = SystemHandle::open(&name, flags).map_err(failure)?;
        let base = handle.base();
        let raw = handle.keep();
        self.state.lock().opened.insert(path.to_owned(), raw as usize);
        let state = self.current();
        let found = state.objects.iter().find(|object| Some(object.base) == base).cloned();
        let missing = "it was opened but is not in the list of dl_iterate_phdr";
        found.map(|object| (object, raw as usize)).ok_or_else(|| failure(missing.into()))
    }

    /// `object` and its needs, breadth first: the scope in which its symbols are found.
    pub(crate) fn closure(&self, object: &Arc<SystemObject>) -> Vec<Arc<SystemObject>> {
        let state = self.current();
        state.closure(object)
    }
}

impl System {
    /// Keeps `object` loaded for good, because a reference to it is about to exist. False if the program
    /// has closed it meanwhile.
    pub(crate) fn pin(&self, object: &SystemObject) -> bool {
        {
            let state = self.state.lock();
            // The objects that the program began with, and the vDSO, which has no file, stay anyway.
            if object.file_id().is_none()
                || state.global.iter().any(|global| global.id == object.id)
                || state.opened.contains_key(&object.path)
            {
                return true;
            }
        }
        let Ok(name) = CString::new(object.path.as_os_str().as_bytes()) else { return false };
        let Ok(handle) = SystemHandle::open(&name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) else {
            return false;
        };
        if handle.base() != Some(object.base) {
            return false;
        }
        let raw = handle.keep();
        self.state.lock().opened.insert(object.path.clone(), raw as usize);
        true
    }

    /// The index as of now. The system loader's list is read without our lock: a thread that holds the list
    /// (in a callback of `dl_iterate_phdr`) may ask for the index.
    fn current(&self) -> Guard<'_, SystemState> {
        let generation = dynamic::generation();
        let known = {
            let state = self.state.lock();
            if state.generation == generation && !state.objects.is_empty() {
                return state;
            }
            state.objects.clone()
        };
        let mut objects = Vec::new();
        // While the list is held, nobody unmaps what is read.
        dynamic::for_each_object(|loaded| {
            let path = path_of(&loaded);
            let same = known.iter().find(|object| object.is(loaded.base, &path)).cloned();
            objects.extend(same.or_else(|| index(&loaded, path)));
        });
        let mut state = self.state.lock();
        // Another thread may have indexed the same objects: there is one entry for each.
        for object in &mut objects {
            if let Some(same) = state.objects.iter().find(|same| same.is(object.base, &object.path))
            {
                *object = same.clone();
            }
        }
        state.generation = generation;
        // An object that was opened and closed again leaves no trace.
        let same = |(one, other): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, other);
        if objects.len() == state.objects.len() && objects.iter().zip(&state.objects).all(same) {
            return state;
        }
        state.by_name.clear();
        for object in &objects {
            for name in [OsStr::new(&object.soname), &object.file_name] {
                if !state.by_name.contains_key(name) {
                    state.by_name.insert(name.to_owned(), object.clone());
                }
            }
        }
        state.objects = objects;
        if state.global.is_empty()
            && let Some(executable) = state.objects.first().cloned()
        {
            state.global = state.at_start(&executable);
        }
        state
    }
}

fn index(loaded: &LoadedObject, path: PathBuf) -> Option<Arc<SystemObject>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let parsed = MappedObject::read(loaded)?;
    let file_name = path.file_name().unwrap_or_default().to_owned();
    let object = SystemObject {
        id: SystemId(NEXT.fetch_add(1, Ordering::Relaxed)),
        base: loaded.base,
        span: parsed.span,
        file: Once::new(),
        soname: parsed.soname.unwrap_or_else(|| file_name.to_string_lossy().into_owned()),
        file_name,
        needed: parsed.needed,
        rpath: parsed.rpath,
        runpath: parsed.runpath,
        symbols: parsed.symbols,
        tls_module: loaded.tls_module,
        dynamic: parsed.dynamic,
        path,
    };
    // As soon as it is seen, before another file may take the path.
    object.file_id();
    Some(Arc::new(object))
}

impl SystemState {
    /// The executable, the preloaded objects (LD_PRELOAD), and their needs, in glibc's order, which
    /// is that of its list: preloaded objects stand between the executable and its needs
    /// (glibc, rtld.c). Objects opened since stand behind all of them.
    fn at_start(&self, executable: &Arc<SystemObject>) -> Vec<Arc<SystemObject>> {
        let needed = self.closure(executable);
        let among = |object: &Arc<SystemObject>| needed.iter().any(|known| known.id == object.id);
        let last = self.objects.iter().rposition(among).unwrap_or(0);
        // The vDSO is in the list, and in no scope. It alone has a name without a directory.
        let is_file = |object: &&Arc<SystemObject>| {
            object.id == executable.id || object.path.components().count() > 1
        };
        let mut global: Vec<_> = self.objects[..=last].iter().filter(is_file).cloned().collect();
        let mut next = 0;
        while let Some(object) = global.get(next).cloned() {
            next += 1;
            for needed in self.closure(&object) {
                if !global.iter().any(|known| known.id == needed.id) {
                    global.push(needed);
                }
            }
        }
        global
    }

    fn by_name(&self, name: &str) -> Option<Arc<SystemObject>> {
        self.by_name.get(OsStr::new(name)).cloned()
    }

    fn closure(&self, object: &Arc<SystemObject>) -> Vec<Arc<SystemObject>> {
        let mut scope = vec![object.clone()];
        let mut next = 0;
        while let Some(current) = scope.get(next).cloned() {
            next += 1;
            for name in &current.needed {
                if let Some(found) = self.by_name(name)
                    && !scope.iter().any(|known| known.id == found.id)
                {
                    scope.push(found);
                }
            }
        }
        scope
    }
}

fn path_of(loaded: &LoadedObject) -> PathBuf {
    if loaded.name.as_bytes().is_empty() {
        // The main program has an empty name in the list.
        static EXECUTABLE: Once<PathBuf> = Once::new();
        return EXECUTABLE.get_or_try_init(std::env::current_exe).cloned().unwrap_or_default();
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(loaded.name.as_bytes()))
}

/// The dynamic symbols of an object that the system loader mapped.
pub(crate) fn symbols_in_memory(loaded: &LoadedObject) -> Option<SymbolTable<'static>> {
    MappedObject::read(loaded).map(|object| object.symbols)
}

/// The tables of a mapped object, read from its memory.
struct MappedObject {
    span: Range<usize>,
    rpath: Option<String>,
    runpath: Option<String>,
    soname: Option<String>,
    needed: Vec<String>,
    symbols: SymbolTable<'static>,
    dynamic: Vec<(u64, u64)>,
}

impl MappedObject {
    fn read(loaded: &LoadedObject) -> Option<MappedObject> {
        if loaded.header_count == 0 {
            return None;
        }
        // SAFETY: dl_iterate_phdr reported the address and number of the headers of an object that
        // is mapped; objects that are bound to are kept open, see `System::open`.
        let headers = unsafe {
            std::slice::from_raw_parts(
                loaded.headers as *const libc::Elf64_Phdr,
                loaded.header_count,
            )
        };
        let segments: Vec<_> = headers
            .iter()
            .filter(|header| header.p_type == PT_LOAD)
            .map(|header| (loaded.base + header.p_vaddr as usize, header.p_memsz as usize))
            .collect();
        let dynamic_header = headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        let memory = |address: usize, length: usize| -> Option<&'static [u8]> {
            let inside = segments.iter().any(|&(start, size)| {
                address >= start
                    && address.checked_add(length).is_some_and(|end| end <= start + size)
            });
            // SAFETY: the range lies in a mapped segment; the tables read through it are constant
            // after glibc's relocation, and stay mapped while the object is open.
            inside.then(|| unsafe { std::slice::from_raw_parts(address as *const u8, length) })
        };
        let section =
            memory(loaded.base + dynamic_header.p_vaddr as usize, dynamic_header.p_memsz as usize)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let dynamic: Vec<(u64, u64)> = section
            .chunks_exact(16)
            .map(|entry| (word(&entry[..8]), word(&entry[8..])))
            .take_while(|entry| entry.0 != DT_NULL)
            .collect();
        let value =
            |tag: u64| dynamic.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1);
        let address = |tag: u64| {
            value(tag).map(|at| {
                if (at as usize) < loaded.base { loaded.base + at as usize } else { at as usize }
            })
        };
        let to_segment_end = |tag: u64| {
            let at = address(tag)?;
            let &(start, size) =
                segments.iter().find(|&&(start, size)| at >= start && at - start < size)?;
            memory(at, start + size - at)
        };
        let strings = memory(address(DT_STRTAB)?, value(DT_STRSZ)? as usize)?;
        let text = |offset: u64| {
            let tail = strings.get(offset as usize..)?;
            let end = tail.iter().position(|&byte| byte == 0)?;
            Some(String::from_utf8_lossy(&tail[..end]).into_owned())
        };
        let counted = |tag: u64, count: u64| {
            to_segment_end(tag).zip(value(count).map(|count| count as usize))
        };
        let symbols = SymbolTable::from_tables(Tables {
            symbols: to_segment_end(DT_SYMTAB)?,
            strings,
            gnu_hash: to_segment_end(DT_GNU_HASH),
            sysv_hash: to_segment_end(DT_HASH),
            version_symbols: to_segment_end(DT_VERSYM),
            version_needs: counted(DT_VERNEED, DT_VERNEEDNUM),
            version_definitions: counted(DT_VERDEF, DT_VERDEFNUM),
        })
        .ok()?;
        let start = segments.iter().map(|&(start, _)| start).min()?;
        let end = segments.iter().map(|&(start, size)| start + size).max()?;
        Some(MappedObject {
            span: start..end,
            rpath: value(DT_RPATH).and_then(text),
            runpath: value(DT_RUNPATH).and_then(text),
            soname: value(DT_SONAME).and_then(text),
            needed: dynamic
                .iter()
                .filter(|entry| entry.0 == DT_NEEDED)
                .filter_map(|entry| text(entry.1))
                .collect(),
            symbols,
            dynamic,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::symbols::Name;

    #[test]
    fn libc_is_indexed_with_its_versions() {
        let system = System::new();
        let libc = system.by_name("libc.so.6").expect("the test process runs on glibc");
        let (_, symbol) = libc.symbols.lookup(Name::new(b"malloc"), None, false).unwrap();
        let expected = libc::malloc as *const () as usize;
        assert_eq!(libc.base + symbol.value as usize, expected);
        assert!(libc.symbols.lookup(Name::new(b"no_such_function_at_all"), None, false).is_none());
    }

    #[test]
    fn the_global_scope_begins_with_the_executable_and_holds_libc() {
        let system = System::new();
        let global = system.global();
        assert_eq!(global[0].path, std::env::current_exe().unwrap());
        assert!(global.iter().any(|object| object.soname == "libc.so.6"));
    }
}
