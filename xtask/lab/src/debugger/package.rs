//! A library that exists only in a package. gdb reads the memory file from which it is loaded.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use super::gdb;
use super::host::{Host, Waiting};

/// Interpreters that load the package.
const COPIES: usize = 3;

/// The package's code. Each interpreter takes a number by creating a file that only one of them can create.
const PROJECT: &str = "
import os, time
import frame

class Model:
    copy = None

    def __call__(self, task):
        if self.copy is None:
            Model.copy = next(n for n in range(1, 100) if claim(n))
            if task == 'visit':
                frame.meet_here(self.copy)
        getattr(frame, task)(self.copy)
        time.sleep(0.001)

def claim(number):
    try:
        os.close(os.open(f'{FOLDER}/claimed by {number}', os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
";

/// Attaches to interpreters that run a function of a packaged library. Checks that its frame has its source line and
/// that gdb knows each interpreter's replica.
pub(super) fn attach(host: &Host) -> Result<()> {
    let waiting = Waiting::start(&arguments(host, "wait_here")?, COPIES)?;
    let seen = gdb::look(host, &waiting)?;
    let own = seen
        .frames
        .iter()
        .find(|frame| frame.function == "wait_here")
        .with_context(|| format!("no frame of the packaged library:\n{}", seen.text))?;
    let copy = own.copy.parse().context("the variable `copy` is not a number")?;
    ensure!((1..=COPIES).contains(&copy), "the variable `copy` is {copy}");
    let own = seen.own(&waiting, copy)?;
    // Outside of the process, the memory file has no name other than its descriptor.
    let link = fs::read_link(format!("/proc/{}/fd/{}", waiting.process(), own.object))
        .with_context(|| format!("the library is called {}", own.object))?;
    ensure!(
        link.to_string_lossy().starts_with("/memfd:"),
        "the library is not a memory file: {link:?}"
    );
    let count = seen.objects.iter().filter(|name| **name == own.object).count();
    ensure!(count == COPIES, "gdb knows {count} of {COPIES} replicas:\n{}", seen.text);
    println!("{own} (copy {copy}) in {}, of which it knows {count} replicas", link.display());
    Ok(())
}

/// Starts interpreters under gdb and stops only in one interpreter's replica of the packaged library.
pub(super) fn live(host: &Host) -> Result<()> {
    gdb::stop_in_one(host, COPIES, &arguments(host, "visit")?)
}

/// A program that calls the package's model in each interpreter for ever.
fn arguments(host: &Host, task: &str) -> Result<Vec<String>> {
    let package = package(host, task)?;
    let copies = COPIES.to_string();
    let library = host.library.display().to_string();
    Ok([
        &host.command(),
        "bench",
        "--samples",
        "--interpreters",
        &copies,
        "--threads",
        &copies,
        "--seconds",
        "1000000",
        "--python",
        &library,
        "--",
        &package.display().to_string(),
    ]
    .map(str::to_owned)
    .to_vec())
}

/// Writes a package with the extension module and a model that does `task`.
fn package(host: &Host, task: &str) -> Result<PathBuf> {
    let folder = host.source().with_file_name(task);
    fs::create_dir_all(&folder)?;
    let project = format!("FOLDER = {:?}\n{PROJECT}", folder.display().to_string());
    // A Model() and the tuple (task,) in protocol 3, as torch.package writes them.
    let model = b"\x80\x03cproject\nModel\n)\x81.";
    let mut example = b"\x80\x03X".to_vec();
    example.extend((task.len() as u32).to_le_bytes());
    example.extend([task.as_bytes(), b"\x85."].concat());
    let module = fs::read(host.module())?;
    let records: [(&str, &[u8]); 5] = [
        (".data/extern_modules", b"os\ntime\n"),
        ("project.py", project.as_bytes()),
        ("frame.so", &module),
        ("model/model.pkl", model),
        ("model/example.pkl", &example),
    ];
    let path = folder.join("frame.pt");
    let mut writer = zip::ZipWriter::new(File::create(&path)?);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in records {
        writer.start_file(format!("frame/{name}"), options)?;
        writer.write_all(bytes)?;
    }
    writer.finish()?;
    Ok(path)
}
