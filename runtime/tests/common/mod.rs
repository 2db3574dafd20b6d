//! Code that the tests of packages and movables share.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The virtual environment with torch. Tests that need it fail without it. The message says what to do.
#[allow(dead_code, reason = "not every test binary needs torch")]
pub fn venv() -> PathBuf {
    match std::env::var_os("HYDROZOA_TEST_VENV") {
        Some(directory) => directory.into(),
        None => panic!(
            "HYDROZOA_TEST_VENV is not set: this test needs a virtual environment with torch 2.11.0 \
             and torchvision 0.26.0. `cargo xtask test` makes one and runs all tests in it."
        ),
    }
}

/// Raw float32 values of a file.
#[allow(dead_code, reason = "not every test binary needs torch")]
pub fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// One at a time: tests that count memory or objects of the whole process.
#[allow(dead_code, reason = "not every test binary measures the whole process")]
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An archive as torch.package's exporter lays it out, without torch.
#[allow(dead_code, reason = "not every test binary writes archives")]
pub fn archive(externs: &[&str], records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    // Aligned as torch aligns records, so that storages can be used in place.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(64);
    let externs = externs.join("\n") + "\n";
    for (name, bytes) in [(".data/extern_modules", externs.as_bytes())].iter().chain(records) {
        writer.start_file(format!("package/{name}"), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The folder of the models that stock torch.package has exported, with their outputs; made once.
#[allow(dead_code, reason = "not every test binary needs torch")]
pub fn exported() -> &'static Path {
    static EXPORTED: OnceLock<PathBuf> = OnceLock::new();
    EXPORTED.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (folder, new) =
            (place.join("packages"), place.join(format!("packages-{}", std::process::id())));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&new).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_packages.py");
        let python = venv().join("bin/python");
        let status = Command::new(&python)
            .args(["-W", "ignore"])
            .arg(&script)
            .arg(&new)
            .status()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", python.display()));
        assert!(status.success(), "{} {} failed", python.display(), script.display());
        // Another program of tests may have the files mapped. A file that is replaced stays as it is for who has it.
        for file in std::fs::read_dir(&new).unwrap() {
            let file = file.unwrap();
            std::fs::rename(file.path(), folder.join(file.file_name())).unwrap();
        }
        std::fs::remove_dir(&new).unwrap();
        folder
    })
}
