//! The memory of one interpreter, by owners.

use super::Usage;
use super::pages::{self, Mapping, Pagemap, Pages};
use crate::heap::Heap;
use crate::interpreter::{Inner, Interpreter};
use crate::payload::table::PackageSize;
use crate::{Error, Result, Settlings};
use hydrozoa_payload::pages::page_size;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// The memory of one interpreter by owners, in bytes, at one moment.
///
/// Private memory is counted in whole pages, at addresses that belong to the interpreter. The memory that its native code takes from
/// malloc and by `operator new` is included. The data of torch's tensors on the CPU is not, nor is what libraries take that exist once for
/// all interpreters: all interpreters and the program share that malloc, and its pages hold blocks of all of them.
/// [`InterpreterMemory::unattributed`] counts that memory, for the whole process.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InterpreterMemory {
    /// Its replicas, those with the most private memory first.
    pub libraries: Vec<Library>,
    /// Private memory behind Python's raw allocator. Python's larger objects and the tables of dictionaries and
    /// lists are there, too.
    pub raw_heap: u64,
    /// Private memory of the arenas of Python's objects.
    pub arenas: u64,
    /// Private memory that its libraries take from malloc and by `operator new`, and that of all blocks of 32 MiB or more.
    pub native_heap: u64,
    /// Private memory of other mappings that its code, such as its libraries, has made.
    pub mapped: u64,
    /// Private memory of the stacks of its own threads: its main thread, and those that its code has created. It includes
    /// their static TLS. Threads of the application that call it are the application's.
    pub stacks: u64,
    /// Bytes of thread-local data that threads have allocated for its libraries. They come from the program's malloc.
    pub thread_local: u64,
    /// Page tables for its pages, an estimate: 4 KiB for each 2 MiB of addresses in which it has a page in memory. The kernel
    /// counts those of the process (`VmPTE`). Neighbours in the same 2 MiB count the same table.
    pub page_tables: u64,
    /// Mappings that it has or shares with a neighbour, of which the kernel allows a process `vm.max_map_count`.
    pub mappings: u64,
    /// Pages of files in its replicas and mappings that are in memory. They belong to the page cache.
    pub of_files: u64,
    /// How it was settled: what was written then is among the pages of files, as far as it is in memory.
    pub settlings: Settlings,
    /// Its share of the process's `Pss`. Where it has a part of a mapping, it has that part of the mapping's pages in memory.
    pub proportional: u64,
    /// The whole process at the same moment.
    pub process: Usage,
    /// Private memory at addresses of the process's other interpreters.
    pub others: u64,
}

/// A replica of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Library {
    /// Its file, symbolic links resolved.
    pub path: PathBuf,
    /// Bytes of its pages that are private: its variables, and the pages that relocation has written.
    pub private: u64,
    /// Bytes of its pages in memory that are the file's.
    pub of_files: u64,
}

/// The memory that the Python objects of one package take.
///
/// It is an estimate: the sum of `sys.getsizeof`. It omits memory that native code takes from malloc without telling Python,
/// for example the data of tensors, and the allocators' losses between blocks. An object to which several packages lead belongs
/// to one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Package {
    /// The first part of its modules' names. `None`: objects that no module leads to, such as those of running functions.
    pub name: Option<String>,
    /// Bytes of its objects.
    pub bytes: u64,
    /// How many objects it has.
    pub objects: u64,
}

impl InterpreterMemory {
    /// Bytes that are private to the interpreter: the sum of libraries, heaps, arenas, mappings and stacks.
    pub fn private(&self) -> u64 {
        self.replicas() + self.raw_heap + self.arenas + self.native_heap + self.mapped + self.stacks
    }

    /// Private bytes of all its replicas.
    pub fn replicas(&self) -> u64 {
        self.libraries.iter().map(|library| library.private).sum()
    }

    /// Private memory of the process that is at no interpreter's addresses: of the program, and of malloc.
    pub fn unattributed(&self) -> u64 {
        (self.process.private.max(0) as u64).saturating_sub(self.private() + self.others)
    }
}

impl Interpreter {
    /// The memory of this interpreter by owners. It reads `/proc/self/smaps` and the process's page tables: some
    /// milliseconds for each interpreter of the process. Threads that allocate meanwhile make it inexact.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn memory(&self) -> Result<InterpreterMemory> {
        let all = Interpreter::all();
        let mut claims = Claims::default();
        let mut memory = claims.of_interpreter(&self.0);
        for other in all.iter().filter(|other| !Arc::ptr_eq(&other.0, &self.0)) {
            claims.of_other(&other.0);
        }
        let path = PathBuf::from("/proc/self/smaps");
        let text = fs::read_to_string(&path).map_err(|source| Error::Io { path, source })?;
        let pagemap = Pagemap::of(std::process::id())?;
        let mut tables = Vec::new();
        for mapping in pages::mappings(&text) {
            memory.process.proportional += mapping.proportional;
            memory.process.resident += mapping.resident;
            let mut is_own = false;
            for (range, owner) in claims.parts(mapping.range.clone()) {
                is_own |= owner.is_some_and(Owner::is_own);
                // Most mappings have none, and some of those are enormous reservations.
                if mapping.anonymous == 0 && mapping.resident == 0 {
                    continue;
                }
                let pages = match owner.filter(|owner| owner.is_own()) {
                    Some(owner) => {
                        let pages = pagemap.count_with_tables(range, &mut tables)?;
                        memory.add(owner, pages, &mapping);
                        pages
                    }
                    None if mapping.anonymous == 0 => continue,
                    None => pagemap.count(range)?,
                };
                memory.process.private += pages.private as i64;
                memory.others += if owner == Some(Owner::Other) { pages.private } else { 0 };
            }
            memory.mappings += u64::from(is_own);
        }
        memory.settlings = self.settlings();
        memory.page_tables = (tables.len() * page_size()) as u64;
        memory.libraries.sort_by_key(|library| Reverse(library.private));
        Ok(memory)
    }

    /// Bytes that its code has taken, as [`Builder::memory_limit`](crate::Builder::memory_limit) counts them: blocks that it has freed
    /// and that its allocators keep are among them, and so is memory that is settled. There may be no limit. This costs nothing. 0 if the
    /// addresses for a heap have run out.
    pub fn memory_taken(&self) -> usize {
        self.0.heap().map_or(0, |heap| heap.limit().taken())
    }

    /// The memory of each package's Python objects, the largest first. It visits all objects of the interpreter, 0.3 s with
    /// torch, and needs 40 bytes for each of them meanwhile. Other threads get the GIL now and then.
    ///
    /// # Errors
    ///
    /// [`Error::Python`] with a `MemoryError`, or for an interpreter whose module `gc` is not CPython's.
    pub fn packages(&self) -> Result<Vec<Package>> {
        let mut packages = Vec::new();
        let context: *mut Vec<Package> = &mut packages;
        // SAFETY: `perform` attaches, and `add_package` gets the vector that it expects, which outlives the call.
        self.session().perform(|inner, sink| unsafe {
            (inner.table().packages)(add_package, context.cast(), sink)
        })?;
        super::give_back(self);
        packages.sort_by_key(|package| Reverse(package.bytes));
        Ok(packages)
    }
}

/// # Safety
///
/// `packages` is a `Vec<Package>` that nobody else uses, and `package` valid.
unsafe extern "C" fn add_package(packages: *mut c_void, package: *const PackageSize) {
    // SAFETY: by contract; the payload keeps the text for the call.
    unsafe {
        let package = &*package;
        let name = String::from_utf8_lossy(package.name.bytes()).into_owned();
        (*packages.cast::<Vec<Package>>()).push(Package {
            name: (!name.is_empty()).then_some(name),
            bytes: package.bytes as u64,
            objects: package.objects as u64,
        });
    }
}

/// The owner of a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The interpreter's library with this place in the list.
    Library(usize),
    RawHeap,
    Arenas,
    NativeHeap,
    Mapped,
    Stack,
    /// Another interpreter.
    Other,
}

impl Owner {
    fn is_own(self) -> bool {
        self != Self::Other
    }
}

impl InterpreterMemory {
    fn add(&mut self, owner: Owner, pages: Pages, mapping: &Mapping<'_>) {
        match owner {
            Owner::Library(place) => {
                self.libraries[place].private += pages.private;
                self.libraries[place].of_files += pages.of_files;
            }
            Owner::RawHeap => self.raw_heap += pages.private,
            Owner::Arenas => self.arenas += pages.private,
            Owner::NativeHeap => self.native_heap += pages.private,
            Owner::Mapped => self.mapped += pages.private,
            Owner::Stack => self.stacks += pages.private,
            Owner::Other => {}
        }
        self.of_files += pages.of_files;
        let resident = mapping.resident.max(1) as u128;
        let share = mapping.proportional as u128 * u128::from(pages.resident) / resident;
        self.proportional += share as u64;
    }
}

/// Ranges that do not overlap, and their owners: by their starts, with their ends.
#[derive(Debug, Default)]
struct Claims(BTreeMap<usize, (usize, Owner)>);

impl Claims {
    /// Claims an interpreter's ranges, and lists its libraries.
    fn of_interpreter(&mut self, inner: &Inner) -> InterpreterMemory {
        let mut memory = InterpreterMemory::default();
        let replicas = inner.domain().replicas();
        for (place, replica) in replicas.into_iter().enumerate() {
            self.claim(replica.base..replica.base + replica.size, Owner::Library(place));
            memory.libraries.push(Library { path: replica.path, ..Library::default() });
        }
        for arena in inner.arenas() {
            self.claim(arena, Owner::Arenas);
        }
        for stack in inner.domain().stacks().into_iter().chain(inner.main_stack()) {
            self.claim(stack, Owner::Stack);
        }
        if let Some([of_python, of_libraries]) = inner.heap().map(Heap::parts) {
            self.claim(of_python, Owner::RawHeap);
            self.claim(of_libraries, Owner::NativeHeap);
        }
        for range in inner.domain().mappings() {
            self.claim(range, Owner::Mapped);
        }
        memory.thread_local = inner.domain().thread_local_bytes() as u64;
        memory
    }

    fn of_other(&mut self, inner: &Inner) {
        let domain = inner.domain();
        let replicas = domain.replicas().into_iter();
        let ranges = replicas.map(|replica| replica.base..replica.base + replica.size);
        let stacks = domain.stacks().into_iter().chain(inner.main_stack());
        let heap = inner.heap().into_iter().flat_map(Heap::parts);
        for range in ranges.chain(stacks).chain(heap).chain(domain.mappings()) {
            self.claim(range, Owner::Other);
        }
    }

    /// Gives `owner` the unclaimed parts of a range.
    fn claim(&mut self, range: Range<usize>, owner: Owner) {
        let free: Vec<_> =
            self.parts(range).into_iter().filter(|(_, other)| other.is_none()).collect();
        for (range, _) in free {
            self.0.insert(range.start, (range.end, owner));
        }
    }

    /// The parts of a range, in ascending order, each with its owner.
    fn parts(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<Owner>)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        let before = self.0.range(..range.start).next_back();
        for (&start, &(end, owner)) in before.into_iter().chain(self.0.range(range.clone())) {
            let (start, end) = (start.max(range.start), end.min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                parts.push((at..start, None));
            }
            parts.push((start..end, Some(owner)));
            at = end;
        }
        if at < range.end {
            parts.push((at..range.end, None));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, Owner};

    #[test]
    fn addresses_belong_to_who_claims_them_first() {
        let mut claims = Claims::default();
        claims.claim(20..30, Owner::RawHeap);
        claims.claim(10..40, Owner::Mapped);
        claims.claim(0..15, Owner::Other);
        let expected = [
            (5..10, Some(Owner::Other)),
            (10..20, Some(Owner::Mapped)),
            (20..30, Some(Owner::RawHeap)),
            (30..40, Some(Owner::Mapped)),
            (40..50, None),
        ];
        assert_eq!(claims.parts(5..50), expected);
        assert_eq!(claims.parts(22..25), [(22..25, Some(Owner::RawHeap))]);
        assert_eq!(claims.parts(60..70), [(60..70, None)]);
    }
}
