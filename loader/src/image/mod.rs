//! Images: ELF files, parsed and validated once for any number of replicas.

pub(crate) mod container;
mod dynamic;
pub(crate) mod enclosure;
pub(crate) mod files;
mod header;
#[cfg(test)]
mod property_tests;
pub(crate) mod provided;
mod relocation_targets;
pub(crate) mod relocations;
pub(crate) mod symbols;
pub(crate) mod versions;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arch::{self, Action};
use crate::error::{Error, Result};

use crate::sys::file::{self, FileId};
use crate::sys::lock::{Mutex, Once, Rank};
pub(crate) use dynamic::Dynamic;
use header::Layout;
pub(crate) use header::{Segment, Tls};
use provided::Kept;
pub(crate) use relocation_targets::Targets;
use relocations::Rela;
pub(crate) use symbols::SymbolTable;
use symbols::{Name, Symbol};

/// Identifies an image for as long as the process runs; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(u32);

/// One ELF file: its layout and its tables.
///
/// Invariant: every offset, count and name in it was checked against the file's length, so that later
/// phases index without further checks.
pub(crate) struct Image {
    pub id: ImageId,
    pub path: PathBuf,
    /// Its file, if no path known to others leads to it: a memory file, a deleted one, or a part of a container.
    kept: Option<Kept>,
    pub file_id: FileId,
    pub segments: Vec<Segment>,
    /// The program headers' place in the image's memory, for `dl_iterate_phdr`.
    pub program_headers: Vec<libc::Elf64_Phdr>,
    /// Bytes of address space from the lowest to the highest segment.
    pub span: usize,
    /// Lowest address in the file, rounded down to a page; zero except in prelinked objects. A replica's
    /// load bias is its base less this.
    pub first: usize,
    /// Greatest alignment that a segment asks for.
    pub alignment: usize,
    pub tls: Option<Tls>,
    /// Address range (relative) that becomes read-only after relocation.
    pub relro: Option<(usize, usize)>,
    /// Relative address of `.eh_frame_hdr`.
    pub unwind_header: Option<usize>,
    /// Whether it asks for executable stacks. None is granted.
    pub executable_stack: bool,
    pub dynamic: Dynamic<'static>,
    pub symbols: SymbolTable<'static>,
    /// The whole file.
    bytes: &'static [u8],
    defines_uniques: Once<bool>,
    undefined: Once<Vec<Name<'static>>>,
    targets: Once<Targets>,
    thread_pointer_offsets: Once<Vec<Rela>>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Image({:?}, {})", self.id, self.path.display())
    }
}

impl Image {
    /// Parses `file`. `path` names it in errors. It leads to the file if it `lasts`, unless the file was replaced.
    fn parse(path: PathBuf, lasts: bool, file: Kept) -> Result<Image> {
        let io = |action| {
            let object = path.clone();
            move |source| Error::Io { object, action, source }
        };
        let file = match file {
            Kept::File(file) => file,
            Kept::Part(part) => {
                return Image::of_bytes(
                    path,
                    Some(Kept::Part(part.clone())),
                    part.id(),
                    part.bytes(),
                );
            }
        };
        let file_id = FileId::of(&file).map_err(io("stat"))?;
        if file_id.is_empty() {
            return Err(Error::Malformed { object: path, reason: "the file is empty".into() });
        }
        let view = Box::into_raw(Box::new(file::view(&file).map_err(io("map"))?));
        // A descriptor for each library of a process would be one of 1,024 (RLIMIT_NOFILE's default).
        let leads_there =
            lasts && provided::regular_file(&path).is_ok_and(|found| found == Some(file_id));
        let kept = match leads_there {
            true => provided::find(&path),
            false => Some(Kept::File(file)),
        };
        // Images live as long as the process (there is one per distinct file, however many
        // replicas), so their bytes may be borrowed for `'static`.
        // SAFETY: the view was just made, and is taken back below only where no image borrows from it.
        let image = Image::of_bytes(path, kept, file_id, unsafe { &*view });
        if image.is_err() {
            // SAFETY: made by `into_raw` above. An error borrows nothing.
            drop(unsafe { Box::from_raw(view) });
        }
        image
    }

    /// The image that `bytes` hold, the content of a file at `path`, or of `kept`.
    pub(crate) fn of_bytes(
        path: PathBuf,
        kept: Option<Kept>,
        file_id: FileId,
        bytes: &'static [u8],
    ) -> Result<Image> {
        let (layout, dynamic, symbols) = tables(&path, bytes)?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Ok(Image {
            id: ImageId(NEXT.fetch_add(1, Ordering::Relaxed)),
            kept,
            file_id,
            segments: layout.segments,
            program_headers: layout.program_headers,
            span: layout.span,
            first: layout.first as usize,
            alignment: layout.alignment,
            tls: layout.tls,
            relro: layout.relro,
            unwind_header: layout.unwind_header,
            executable_stack: layout.executable_stack,
            dynamic,
            symbols,
            bytes,
            defines_uniques: Once::new(),
            undefined: Once::new(),
            targets: Once::new(),
            thread_pointer_offsets: Once::new(),
            path,
        })
    }

    /// Its file, for mappings of it.
    ///
    /// A file on disk is opened again each time. It must still be the file that was parsed, by device,
    /// inode, size and time of change: replicas share its text, and plans are made from its bytes. Images are
    /// looked up by a path that leads to the file at that time, so this fails only where the file is
    /// replaced or made unreadable in the middle of a load, or where descriptors are used up.
    ///
    /// Nothing else gives further private mappings of a file without a descriptor: `mremap` duplicates shared
    /// mappings only (mremap(2)), into which debuggers cannot put breakpoints, and `/proc/self/map_files` opens for
    /// processes with CAP_CHECKPOINT_RESTORE (proc(5)).
    pub(crate) fn file(&self) -> io::Result<Content<'_>> {
        if let Some(file) = &self.kept {
            return Ok(Content::Kept(file));
        }
        let opened = self.open_at(&self.path);
        // It may have been found by another path, and the first path may be gone.
        let again = |error| match IMAGES.found_at(self.file_id) {
            Some(path) => self.open_at(&path),
            None => Err(error),
        };
        opened.or_else(again).map(Content::Opened)
    }

    fn open_at(&self, path: &Path) -> io::Result<Kept> {
        let file = provided::open(path)?;
        if file.id()? != self.file_id {
            return Err(io::Error::other("it was replaced during the load; load it again"));
        }
        Ok(file)
    }

    /// The path by which other processes, and others in this one, find its bytes.
    ///
    /// Debuggers and symbolizers open the name of an object. Some run `addr2line` on it, and fail if the
    /// file does not exist. No file holds a part of a container alone: its own path leads debuggers to a copy of it, below
    /// the directory that they are told to look into.
    pub(crate) fn public_path(&self) -> Cow<'_, Path> {
        match &self.kept {
            Some(Kept::File(file)) => Cow::Owned(file::public_path(file)),
            Some(Kept::Part(_)) | None => Cow::Borrowed(&self.path),
        }
    }

    /// The name by which other objects need it: DT_SONAME, or the file's name.
    pub(crate) fn soname(&self) -> &str {
        self.dynamic.soname.unwrap_or_else(|| {
            self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
        })
    }

    /// Its unique definition (STB_GNU_UNIQUE) of `name`, whatever its version: the name is unique (glibc,
    /// elf/dl-lookup.c, do_lookup_unique).
    pub(crate) fn unique(&self, name: Name<'_>) -> Option<Symbol> {
        let (_, symbol) = self.symbols.lookup(name, None, true)?;
        symbol.is_unique().then_some(symbol)
    }

    /// Whether it defines symbols that must be unique in a domain (STB_GNU_UNIQUE).
    pub(crate) fn defines_uniques(&self) -> bool {
        *self.defines_uniques.get_or_init(|| {
            (0..self.symbols.count())
                .filter_map(|index| self.symbols.symbol(index))
                .any(|symbol| symbol.is_unique() && !symbol.is_undefined())
        })
    }

    /// The names of the undefined symbols that its relocations name, each once. They are hashed once: each load asks all
    /// libraries that it meets which of them the domain defines.
    pub(crate) fn undefined(&self) -> &[Name<'static>] {
        self.undefined.get_or_init(|| {
            let mut seen = vec![];
            let mut undefined = Vec::new();
            for rela in self.dynamic.rela() {
                let index = rela.symbol as usize;
                if index == 0 || seen.get(index) == Some(&true) {
                    continue;
                }
                if seen.len() <= index {
                    seen.resize(index + 1, false);
                }
                seen[index] = true;
                let symbol = self.symbols.symbol(rela.symbol);
                let symbol = symbol.filter(|symbol| symbol.is_undefined());
                undefined
                    .extend(symbol.and_then(|symbol| self.symbols.name(&symbol)).map(Name::new));
            }
            undefined
        })
    }

    /// Where its relocations apply.
    ///
    /// # Errors
    /// [`Error::Relocation`] for the first that no replica could apply.
    pub(crate) fn targets(&self) -> Result<&Targets> {
        self.targets.get_or_try_init(|| Targets::check(self))
    }

    /// Whether its code reaches its own thread-local data by offsets from the thread pointer.
    pub(crate) fn needs_static_tls(&self) -> bool {
        self.thread_pointer_offsets().any(|rela| rela.symbol == 0)
    }

    /// The relocations of initial-exec code.
    pub(crate) fn thread_pointer_offsets(&self) -> impl Iterator<Item = Rela> {
        let offsets = self.thread_pointer_offsets.get_or_init(|| {
            let of_kind =
                |rela: &Rela| arch::action(rela.kind) == Some(Action::ThreadPointerOffset);
            self.dynamic.rela().filter(of_kind).collect()
        });
        offsets.iter().copied()
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// The bytes of a replica at `address` (as in the file) before relocation.
    pub(crate) fn initial_word(&self, address: u64) -> u64 {
        let at = (address as usize).wrapping_sub(self.first);
        let mut word = [0; size_of::<u64>()];
        if let Some(segment) = self.segments.iter().find(|segment| segment.holds(at, word.len())) {
            let start = at - segment.address;
            // Memory behind the file's part begins as zeroes.
            let length = segment.file_size.saturating_sub(start).min(word.len());
            if length > 0 {
                let offset = segment.offset as usize + start;
                word[..length].copy_from_slice(&self.bytes[offset..offset + length]);
            }
        }
        u64::from_ne_bytes(word)
    }

    /// The directory of `$ORIGIN`.
    pub(crate) fn origin(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// An image's file for as long as it is needed.
pub(crate) enum Content<'a> {
    Kept(&'a Kept),
    Opened(Kept),
}

impl Content<'_> {
    /// The file, to be kept by the caller.
    pub(crate) fn into_kept(self) -> Kept {
        match self {
            Content::Kept(kept) => kept.clone(),
            Content::Opened(kept) => kept,
        }
    }
}

impl Deref for Content<'_> {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        match self {
            Content::Kept(kept) => kept,
            Content::Opened(kept) => kept,
        }
    }
}

/// Parses and validates `bytes`.
fn tables<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Layout, Dynamic<'a>, SymbolTable<'a>)> {
    let malformed = |reason| Error::Malformed { object: path.to_owned(), reason };
    let layout = Layout::parse(bytes).map_err(|problem| problem.named(path))?;
    let dynamic = Dynamic::parse(bytes, &layout).map_err(malformed)?;
    let symbols = SymbolTable::parse(&dynamic).map_err(malformed)?;
    dynamic
        .refuse_unsupported()
        .map_err(|reason| Error::Refused { object: path.to_owned(), reason })?;
    Ok((layout, dynamic, symbols))
}

/// Every image of the process. Each is parsed once for all loaders.
pub(crate) static IMAGES: ImageCache = ImageCache::new();

/// Images by the identity of their files.
pub(crate) struct ImageCache {
    by_file: Mutex<BTreeMap<FileId, Known>>,
}

struct Known {
    image: Arc<Image>,
    /// The path by which it was found last, if that is not the image's own.
    found_at: Option<PathBuf>,
}

impl ImageCache {
    pub(crate) const fn new() -> ImageCache {
        ImageCache { by_file: Mutex::new(Rank::Images, BTreeMap::new()) }
    }

    /// The image of the file at `path`, parsed now if it was not before.
    pub(crate) fn open(&self, path: &Path) -> Result<Arc<Image>> {
        let io_error = |action| move |source| Error::Io { object: path.to_owned(), action, source };
        let known = |id: &FileId| {
            let mut images = self.by_file.lock();
            let known = images.get_mut(id)?;
            if path == known.image.path {
                known.found_at = None;
            } else if known.found_at.as_deref() != Some(path) {
                known.found_at = Some(path.to_owned());
            }
            Some(known.image.clone())
        };
        if let Some(image) = provided::regular_file(path).ok().flatten().as_ref().and_then(known) {
            return Ok(image);
        }
        let file = provided::open(path).map_err(io_error("open"))?;
        let id = file.id().map_err(io_error("stat"))?;
        if let Some(image) = known(&id) {
            return Ok(image);
        }
        // $ORIGIN and debuggers need the real place, not the symbolic link that led to it.
        let (resolved, lasts) = match provided::canonical(path) {
            // It is open, so it has lost its name: /proc/self/fd/N of a deleted file, or of a memory file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), false),
            resolved => (resolved.map_err(io_error("resolve"))?, true),
        };
        let found_at = (resolved != path).then(|| path.to_owned());
        let image = Image::parse(resolved, lasts, file).map_err(|error| error.found_at(path))?;
        self.insert(image, found_at)
    }

    /// Whether this very file is an image already.
    pub(crate) fn holds(&self, id: FileId) -> bool {
        self.by_file.lock().contains_key(&id)
    }

    /// The image whose bytes are `bytes`, under a name that need not be a path.
    /// The same bytes under the same name are the same image.
    pub(crate) fn open_bytes(&self, name: &str, bytes: &[u8]) -> Result<Arc<Image>> {
        let path = PathBuf::from(name);
        let same = |image: &Image| image.path == path && image.bytes == bytes;
        if let Some(known) = self.by_file.lock().values().find(|known| same(&known.image)) {
            return Ok(known.image.clone());
        }
        let file = file::sealed(name, bytes).map_err(|source| Error::Io {
            object: path.clone(),
            action: "create a memory file for it",
            source,
        })?;
        self.insert(Image::parse(path, false, Kept::File(Arc::new(file)))?, None)
    }

    /// The image with these bytes, if one exists.
    pub(crate) fn with_bytes(&self, bytes: &[u8]) -> Option<Arc<Image>> {
        let images = self.by_file.lock();
        images.values().find(|known| known.image.bytes == bytes).map(|known| known.image.clone())
    }

    /// The image of the file at `path`, which has no symbolic links in it.
    pub(crate) fn at(&self, path: &Path) -> Option<Arc<Image>> {
        let images = self.by_file.lock();
        images.values().map(|known| &known.image).find(|image| image.path == path).cloned()
    }

    /// The path by which the image at `path` was found last.
    pub(crate) fn found_as(&self, path: &Path) -> Option<PathBuf> {
        let images = self.by_file.lock();
        images.values().find(|known| known.image.path == path)?.found_at.clone()
    }

    fn found_at(&self, id: FileId) -> Option<PathBuf> {
        self.by_file.lock().get(&id)?.found_at.clone()
    }

    fn insert(&self, image: Image, found_at: Option<PathBuf>) -> Result<Arc<Image>> {
        let mut images = self.by_file.lock();
        // Another thread may have parsed the same file meanwhile: the first one stays.
        let new = |image| Known { image: Arc::new(image), found_at };
        let known = images.entry(image.file_id).or_insert_with(|| new(image));
        Ok(known.image.clone())
    }
}
