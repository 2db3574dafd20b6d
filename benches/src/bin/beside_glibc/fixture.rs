//! Libraries made for a measurement, and glibc's loader.

use std::ffi::{CStr, CString, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;

use anyhow::{Context, Result, bail, ensure};

/// A folder that is removed when this value is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("hydrozoa-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Compiles a C++ source to the library `name`. The `arguments` follow the source on the command line.
    pub fn compile(&self, name: &str, source: &str, arguments: &[&str]) -> Result<PathBuf> {
        let (file, library) = (self.0.join(format!("{name}.cc")), self.0.join(name));
        fs::write(&file, source)?;
        let mut command = Command::new("c++");
        command.args(["-shared", "-fPIC", "-O2", "-o"]).args([&library, &file]).args(arguments);
        let status = command.status().context("starting c++")?;
        ensure!(status.success(), "c++ of {name}: {status}");
        Ok(library)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A library loaded by glibc. It stays loaded unless it is closed.
pub struct SystemLibrary(NonNull<c_void>);

impl SystemLibrary {
    /// `dlopen`. The file's constructors run.
    pub fn open(path: &Path, flags: i32) -> Result<SystemLibrary> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the name ends in NUL. The opened libraries are made for this, or are libraries that a program of
        // this kind loads.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        NonNull::new(handle).map(SystemLibrary).with_context(|| {
            // SAFETY: dlopen has just failed in this thread, so dlerror returns a text.
            let text = unsafe { CStr::from_ptr(libc::dlerror()) };
            format!("dlopen of {}: {}", path.display(), text.to_string_lossy())
        })
    }

    pub fn symbol(&self, name: &CStr) -> Result<*const c_void> {
        // SAFETY: the handle is open, the name ends in NUL.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        ensure!(!address.is_null(), "no symbol {}", name.to_string_lossy());
        Ok(address)
    }

    /// # Safety
    /// Nothing uses the library any more.
    pub unsafe fn close(self) {
        // SAFETY: the handle is open; the caller promises the rest.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

const ENTRY: usize = 16;
/// DT_INIT, DT_FINI, DT_INIT_ARRAY, DT_FINI_ARRAY and the sizes of the last two (gABI, "Dynamic
/// Section").
const CONSTRUCTION: [u64; 6] = [12, 13, 25, 26, 27, 28];
const PT_DYNAMIC: u32 = 2;

/// A copy of a library without entries for constructors and destructors. Its load can be timed without theirs, and
/// any number of copies can be loaded.
pub fn without_constructors(library: &Path, copy: &Path) -> Result<()> {
    let mut bytes = fs::read(library).with_context(|| format!("reading {}", library.display()))?;
    let word = |bytes: &[u8], at: usize| -> Result<u64> {
        let word = bytes.get(at..at + 8).context("the file is cut off")?;
        Ok(u64::from_le_bytes(word.try_into().expect("eight bytes")))
    };
    ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "{}: not an ELF64 file", library.display());
    // Elf64_Ehdr: e_phoff, then e_phentsize and e_phnum; Elf64_Phdr: p_type, p_offset, p_filesz.
    let table = word(&bytes, 32)? as usize;
    let sizes = word(&bytes, 54)?;
    let (size, count) = (sizes as u16 as usize, (sizes >> 16) as u16 as usize);
    let Some(header) = (0..count)
        .map(|index| table + index * size)
        .find(|&at| word(&bytes, at).is_ok_and(|word| word as u32 == PT_DYNAMIC))
    else {
        bail!("{}: no dynamic section", library.display());
    };
    let start = word(&bytes, header + 8)? as usize;
    let length = word(&bytes, header + 32)? as usize;
    let section = bytes.get_mut(start..start + length).context("the file is cut off")?;
    let kept: Vec<u8> = section
        .chunks_exact(ENTRY)
        .filter(|entry| {
            let tag = u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"));
            !CONSTRUCTION.contains(&tag)
        })
        .flatten()
        .copied()
        .collect();
    section.fill(0);
    section[..kept.len()].copy_from_slice(&kept);
    fs::write(copy, &bytes).with_context(|| format!("writing {}", copy.display()))
}
