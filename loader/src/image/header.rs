//! The ELF header and the program headers: the layout of an image in memory.

use std::path::Path;

use goblin::elf::header::{self, header64::Header};
use goblin::elf::program_header::{
    self, PF_R, PF_W, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_RELRO, PT_GNU_STACK, PT_LOAD,
    PT_TLS,
};
use plain::Plain;

use crate::arch;
use crate::error::Error;
use crate::sys::{page_down, page_size, page_up};

/// One PT_LOAD. Addresses are relative to the image's lowest page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub address: usize,
    pub memory_size: usize,
    pub offset: u64,
    pub file_size: usize,
    pub write: bool,
    pub execute: bool,
}

impl Segment {
    /// Whether `length` bytes at `address` lie in its memory.
    pub(crate) fn holds(&self, address: usize, length: usize) -> bool {
        address >= self.address
            && address.checked_add(length).is_some_and(|end| end <= self.address + self.memory_size)
    }
}

/// PT_TLS: the initial image of a thread's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub address: usize,
    pub file_size: usize,
    pub memory_size: usize,
    pub alignment: usize,
}

/// The contents of the program headers, validated against the file's length.
#[derive(Debug)]
pub(crate) struct Layout {
    pub segments: Vec<Segment>,
    pub program_headers: Vec<libc::Elf64_Phdr>,
    pub span: usize,
    pub alignment: usize,
    pub tls: Option<Tls>,
    pub relro: Option<(usize, usize)>,
    pub unwind_header: Option<usize>,
    /// Whether it asks for executable stacks: by PF_X of PT_GNU_STACK, or by lacking PT_GNU_STACK (glibc,
    /// DEFAULT_STACK_PERMS).
    pub executable_stack: bool,
    /// PT_DYNAMIC: relative address and size.
    pub dynamic: (usize, usize),
    /// Lowest p_vaddr, rounded down to a page: the origin of relative addresses.
    pub first: u64,
}

/// Why a header was not accepted.
#[derive(Debug)]
pub(crate) enum Problem {
    Malformed(String),
    Refused(String),
}

impl Problem {
    pub(crate) fn named(self, object: &Path) -> Error {
        let object = object.to_owned();
        match self {
            Problem::Malformed(reason) => Error::Malformed { object, reason },
            Problem::Refused(reason) => Error::Refused { object, reason },
        }
    }
}

fn malformed<T>(reason: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Malformed(reason.into()))
}

fn refused<T>(reason: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Refused(reason.into()))
}

/// Upper limit of an image's address space: 128 GiB. The largest libraries in use have 2 GiB; a
/// header that asks for more is damaged.
const GREATEST_SPAN: u64 = 1 << 37;
/// Upper limit of an alignment: 1 GiB, the largest page in use.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

impl Layout {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Layout, Problem> {
        let headers = program_headers(bytes)?;
        let loads: Vec<_> = headers.iter().filter(|header| header.p_type == PT_LOAD).collect();
        let (Some(first), Some(last)) = (loads.first(), loads.last()) else {
            return malformed("it has no PT_LOAD segment");
        };
        let first = first.p_vaddr & !(page_size() as u64 - 1);
        let end_of = |load: &program_header::program_header64::ProgramHeader| {
            let end = load.p_vaddr.checked_add(load.p_memsz)?.checked_sub(first)?;
            (end <= GREATEST_SPAN).then_some(end as usize)
        };
        let Some(span) = end_of(last).and_then(page_up) else {
            return malformed("its segments span more address space than any image can");
        };
        let mut segments: Vec<Segment> = Vec::with_capacity(loads.len());
        let mut alignment = page_size() as u64;
        for (index, load) in loads.iter().enumerate() {
            let name = format!("PT_LOAD {index}");
            alignment = alignment.max(check_load(&name, load, bytes.len() as u64)?);
            let Some(address) = load.p_vaddr.checked_sub(first) else {
                return malformed(format!("{name} is not in ascending order of address"));
            };
            if end_of(load).is_none_or(|end| end > span) {
                return malformed(format!("{name} reaches beyond the last segment"));
            }
            let segment = Segment {
                address: address as usize,
                memory_size: load.p_memsz as usize,
                offset: load.p_offset,
                file_size: load.p_filesz as usize,
                write: load.p_flags & PF_W != 0,
                execute: load.p_flags & PF_X != 0,
            };
            if let Some(before) = segments.last() {
                // gABI: PT_LOAD entries ascend on p_vaddr. Two in one page could not have
                // different rights, and the later mapping would replace the earlier.
                let before_end = page_up(before.address + before.memory_size).unwrap_or(usize::MAX);
                if page_down(segment.address) < before_end {
                    return malformed(format!("{name} shares a page with the segment before it"));
                }
            }
            segments.push(segment);
        }
        let mut layout = Layout {
            segments,
            program_headers: headers.iter().map(to_libc).collect(),
            span,
            alignment: alignment as usize,
            tls: None,
            relro: None,
            unwind_header: None,
            executable_stack: true,
            dynamic: (0, 0),
            first,
        };
        for header in &headers {
            layout.take(header)?;
        }
        if layout.dynamic.1 == 0 {
            return malformed("it has no dynamic section: a static object, or only a debug file");
        }
        layout.refuse_trampolines(bytes)?;
        Ok(layout)
    }

    /// Notes the contents of a header other than PT_LOAD.
    fn take(
        &mut self,
        header: &program_header::program_header64::ProgramHeader,
    ) -> Result<(), Problem> {
        let relative = |what: &str| match header.p_vaddr.checked_sub(self.first) {
            Some(address) if self.holds(address as usize, header.p_memsz as usize) => {
                Ok(address as usize)
            }
            _ => malformed(format!("{what} does not lie in a PT_LOAD segment")),
        };
        match header.p_type {
            PT_DYNAMIC => {
                let address = relative("PT_DYNAMIC")?;
                // Loaders find it by its address, other tools by its offset; linkers write it
                // where both find the same.
                let mapped = |segment: &Segment| {
                    segment.holds(address, 0)
                        && header.p_offset.wrapping_sub(segment.offset)
                            == (address - segment.address) as u64
                };
                if header.p_filesz != header.p_memsz || !self.segments.iter().any(mapped) {
                    return malformed("PT_DYNAMIC lies elsewhere in the file than in memory");
                }
                self.dynamic = (address, header.p_memsz as usize);
            }
            PT_GNU_EH_FRAME => self.unwind_header = Some(relative("PT_GNU_EH_FRAME")?),
            PT_GNU_RELRO => {
                let start = header.p_vaddr.wrapping_sub(self.first) as usize;
                let size = header.p_memsz as usize;
                // In pages: lld rounds the end up to the page in which the segment ends, mold
                // begins with the .tbss before the segment.
                let inside = self.segments.iter().any(|segment| {
                    let end = page_up(segment.address + segment.memory_size);
                    page_down(start) >= page_down(segment.address)
                        && start.checked_add(size).is_some_and(|own| Some(own) <= end)
                });
                if !inside {
                    return malformed("PT_GNU_RELRO does not lie in a PT_LOAD segment");
                }
                // The end is rounded down, as musl and glibc do: the page of the end may hold
                // data that stays writable.
                let end = page_down(start + size);
                self.relro = (end > page_down(start)).then_some((page_down(start), end));
            }
            PT_GNU_STACK => self.executable_stack = header.p_flags & PF_X != 0,
            PT_TLS if header.p_memsz > 0 => {
                let alignment = header.p_align.max(1);
                if header.p_filesz > header.p_memsz
                    || !alignment.is_power_of_two()
                    || alignment > GREATEST_ALIGNMENT
                    || header.p_memsz > GREATEST_SPAN
                {
                    return malformed("PT_TLS has an impossible size or alignment");
                }
                let address = header.p_vaddr.wrapping_sub(self.first) as usize;
                // .tbss occupies no address space: only the initialised part must be mapped.
                if header.p_filesz > 0 && !self.holds(address, header.p_filesz as usize) {
                    return malformed("PT_TLS does not lie in a PT_LOAD segment");
                }
                self.tls = Some(Tls {
                    address,
                    file_size: header.p_filesz as usize,
                    memory_size: header.p_memsz as usize,
                    alignment: alignment as usize,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses an image whose code would jump to the stack. Stacks stay as they are, so it would crash.
    ///
    /// Most images that ask for executable stacks never use one: an assembly or binary file in them lacks
    /// .note.GNU-stack, and the linker assumes the worst (ld(1), -z noexecstack).
    fn refuse_trampolines(&self, bytes: &[u8]) -> Result<(), Problem> {
        let mut code = self.segments.iter().filter(|segment| segment.execute).map(|segment| {
            let start = segment.offset as usize;
            &bytes[start..start + segment.file_size]
        });
        if self.executable_stack && code.any(arch::makes_trampolines) {
            return refused(
                "it needs an executable stack (PT_GNU_STACK with PF_X), because it calls nested functions \
                 through code that it writes onto the stack; compile it with -ftrampoline-impl=heap (gcc 14), \
                 or clear the flag with `patchelf --clear-execstack` if it never calls them",
            );
        }
        Ok(())
    }

    fn holds(&self, address: usize, length: usize) -> bool {
        self.segments.iter().any(|segment| segment.holds(address, length))
    }

    /// The file bytes behind the address `address` (as in the file, not relative), up to the end
    /// of the segment's file part.
    pub(crate) fn bytes_at<'a>(&self, bytes: &'a [u8], address: u64) -> Option<&'a [u8]> {
        let relative = usize::try_from(address.checked_sub(self.first)?).ok()?;
        let segment = self.segments.iter().find(|segment| {
            relative >= segment.address && relative - segment.address < segment.file_size
        })?;
        let offset = segment.offset as usize + (relative - segment.address);
        bytes.get(offset..segment.offset as usize + segment.file_size)
    }
}

/// Checks one PT_LOAD and returns its alignment.
fn check_load(
    name: &str,
    load: &program_header::program_header64::ProgramHeader,
    file_length: u64,
) -> Result<u64, Problem> {
    if load.p_offset.checked_add(load.p_filesz).is_none_or(|end| end > file_length) {
        return malformed(format!(
            "the file is truncated: {name} ends at byte {}, the file has {file_length}",
            load.p_offset.saturating_add(load.p_filesz),
        ));
    }
    if load.p_filesz > load.p_memsz || load.p_memsz == 0 {
        return malformed(format!("{name} is larger in the file than in memory, or empty"));
    }
    if load.p_flags & (PF_W | PF_X) == (PF_W | PF_X) {
        return refused(format!(
            "{name} is writable and executable at once; its pages could not be shared by replicas; link it \
             without --omagic"
        ));
    }
    if load.p_flags & PF_R == 0 {
        return refused(format!("{name} is not readable; link it without --execute-only"));
    }
    let alignment = load.p_align.max(1);
    if !alignment.is_power_of_two() || alignment > GREATEST_ALIGNMENT {
        return malformed(format!("{name} has the alignment {:#x}", load.p_align));
    }
    if load.p_vaddr % page_size() as u64 != load.p_offset % page_size() as u64 {
        return malformed(format!("{name}: p_vaddr and p_offset differ modulo the page size"));
    }
    Ok(alignment)
}

/// Reads the ELF header and returns the program headers.
fn program_headers(
    bytes: &[u8],
) -> Result<Vec<program_header::program_header64::ProgramHeader>, Problem> {
    const HEADER: usize = size_of::<Header>();
    let Some(head) = bytes.get(..HEADER) else {
        return malformed(format!("the file has {} bytes, less than an ELF header", bytes.len()));
    };
    if &head[..4] != header::ELFMAG {
        return malformed("it does not begin with the ELF magic number");
    }
    if head[header::EI_CLASS] != header::ELFCLASS64 || head[header::EI_DATA] != header::ELFDATA2LSB
    {
        return malformed("it is not a 64-bit little-endian object");
    }
    check_identity(&head[..header::SIZEOF_IDENT])?;
    let head: Header = copied(head);
    if head.e_version != header::EV_CURRENT.into() {
        return malformed(format!("it has version {} of the ELF format", head.e_version));
    }
    if head.e_machine != arch::MACHINE {
        return malformed(format!(
            "it is for {}, this process runs on {}",
            header::machine_to_str(head.e_machine),
            header::machine_to_str(arch::MACHINE),
        ));
    }
    if head.e_type == header::ET_EXEC {
        return malformed("cannot dynamically load executable");
    }
    if head.e_type != header::ET_DYN {
        return malformed(format!(
            "it is not a shared object: its type is {}",
            header::et_to_str(head.e_type)
        ));
    }
    const ENTRY: usize = size_of::<program_header::program_header64::ProgramHeader>();
    if head.e_phentsize as usize != ENTRY {
        return malformed(format!("program headers of {} bytes", head.e_phentsize));
    }
    let table = usize::try_from(head.e_phoff)
        .ok()
        .and_then(|start| bytes.get(start..start.checked_add(ENTRY * head.e_phnum as usize)?));
    let Some(table) = table else {
        return malformed("the file is truncated: its program headers lie beyond the end");
    };
    Ok(table.chunks_exact(ENTRY).map(copied).collect())
}

/// Makes glibc's checks of the rest of e_ident (elf/dl-load.c, open_verify). Bytes behind those that the gABI names
/// are reserved for later meanings.
fn check_identity(identity: &[u8]) -> Result<(), Problem> {
    let [version, system, release] =
        [header::EI_VERSION, header::EI_OSABI, header::EI_ABIVERSION].map(|at| identity[at]);
    if version != header::EV_CURRENT {
        return malformed(format!("it has version {version} of the ELF format"));
    }
    if !matches!(system, header::ELFOSABI_NONE | header::ELFOSABI_GNU) {
        return malformed(format!("it is for another operating system (EI_OSABI {system})"));
    }
    if release != 0 && system == header::ELFOSABI_NONE {
        return malformed(format!("it has the unknown EI_ABIVERSION {release}"));
    }
    match identity[header::EI_ABIVERSION + 1..].iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => malformed("the end of e_ident holds what nobody has defined"),
    }
}

/// The structure that `bytes`, wherever they lie, hold.
fn copied<T: Plain + Default>(bytes: &[u8]) -> T {
    let mut structure = T::default();
    plain::copy_from_bytes(&mut structure, bytes).expect("the slice has the structure's length");
    structure
}

fn to_libc(header: &program_header::program_header64::ProgramHeader) -> libc::Elf64_Phdr {
    libc::Elf64_Phdr {
        p_type: header.p_type,
        p_flags: header.p_flags,
        p_offset: header.p_offset,
        p_vaddr: header.p_vaddr,
        p_paddr: header.p_paddr,
        p_filesz: header.p_filesz,
        p_memsz: header.p_memsz,
        p_align: header.p_align,
    }
}
