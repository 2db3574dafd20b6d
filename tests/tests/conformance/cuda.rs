//! torch's own CUDA code on a device that is main memory (`tests/scripts/cuda`): what interpreters do with device memory, and in
//! which order. No kernel runs there, so no model does. The tests copy the data on the device back and compare it. With
//! `HYDROZOA_TEST_GPU` set, they use the machine's GPU.

use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Package;
use hydrozoa::{Object, Pool, Session, Tensor};
use hydrozoa_tests::place;

/// Set in the process that has the device. It is a child of the test, since libraries are preloaded at a process's start.
const INSIDE: &str = "HYDROZOA_TEST_DEVICE";

/// Set where the device is a GPU.
const GPU: &str = "HYDROZOA_TEST_GPU";

const INTERPRETERS: usize = 3;

pub fn with_device() -> Result<()> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return inside(Path::new(&folder));
    }
    let folder = place::scratch("cuda")?;
    let folder = folder.path();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/export_devices.py");
    let mut python = Command::new(place::venv()?.join("bin/python"));
    ran(python.args(["-W", "ignore"]).args([script.as_path(), folder]))?;
    if std::env::var_os(GPU).is_some() {
        return inside(folder);
    }
    let runtime = compile(folder, "runtime.c", "librehearsal.so")?;
    compile(folder, "driver.c", "libcuda.so.1")?;
    // The environment already names the test that it has to run.
    let mut child = Command::new(std::env::current_exe()?);
    ran(child.env(INSIDE, folder).env("LD_PRELOAD", runtime).env("LD_LIBRARY_PATH", folder))
}

fn compile(folder: &Path, source: &str, library: &str) -> Result<std::path::PathBuf> {
    let output = folder.join(library);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&output);
    compiler.arg(place::script("cuda").join(source)).arg(format!("-Wl,-soname,{library}"));
    ran(&mut compiler)?;
    Ok(output)
}

fn ran(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// A function of `areas.py`, which each interpreter has.
fn call<'s>(
    session: &'s Session,
    name: &str,
    arguments: impl hydrozoa::ToArguments,
) -> Result<Object<'s>> {
    Ok(session.import("areas")?.call_method(name, arguments)?)
}

fn is(session: &Session, name: &str, arguments: impl hydrozoa::ToArguments) -> Result<bool> {
    Ok(call(session, name, arguments)?.truth()?)
}

fn number(session: &Session, name: &str) -> Result<usize> {
    Ok(call(session, name, ())?.extract()?)
}

/// Bytes that were ever copied to the device. Allocators of a GPU count what went through them, and each interpreter has one.
fn uploaded(pool: &Pool) -> Result<usize> {
    let interpreters = if std::env::var_os(GPU).is_none() { 1 } else { INTERPRETERS };
    (0..interpreters).map(|index| number(&pool.acquire_on(index)?, "uploaded")).sum()
}

fn collect(pool: &Pool) -> Result<()> {
    // A storage in one interpreter may keep objects of another: the second round releases them.
    for interpreter in pool.interpreters().into_iter().chain(pool.interpreters()) {
        interpreter.drain();
        interpreter.session().import("gc")?.call_method("collect", ())?;
    }
    Ok(())
}

fn inside(folder: &Path) -> Result<()> {
    let pool = Pool::builder().interpreters(INTERPRETERS).venv(place::venv()?).build()?;
    for interpreter in pool.interpreters() {
        prepare(&interpreter.session())?;
    }
    let plain = pool.load_package(folder.join("cpu.pt"))?;
    uploaded_once(&pool, folder, &plain)?;
    script_once(&pool, folder, &plain)?;
    given_back_after_the_device(&pool, folder, &plain)?;
    movable_in_order(&pool)?;
    tensor_in_order(&pool)?;
    given_back_at_the_end(&pool)?;
    if std::env::var_os(GPU).is_none() {
        given_back_by_nobody_else(&pool)?;
    }
    bounded(&pool)
}

fn prepare(session: &Session) -> Result<()> {
    let path = session.import("sys")?.getattr("path")?;
    let scripts = place::script("cuda");
    path.call_method("insert", (0, scripts.to_str().context("a UTF-8 path")?))?;
    ensure!(session.eval("__import__('torch').cuda.is_available()")?.truth()?, "no device");
    Ok(())
}

/// Six threads on three interpreters load a model that was saved on a GPU.
fn uploaded_once(pool: &Pool, folder: &Path, plain: &Package) -> Result<()> {
    let before = (uploaded(pool)?, number(&pool.acquire_on(0)?, "allocated")?);
    let package = pool.load_package(folder.join("cuda_0.pt"))?;
    // After the last user releases the storages, the next one uploads them again. So no thread ends before all have begun.
    let loaded = Barrier::new(2 * INTERPRETERS);
    let found: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..2 * INTERPRETERS)
            .map(|number| {
                let (package, plain, loaded) = (&package, &plain, &loaded);
                scope.spawn(move || {
                    let session = pool.acquire_on(number % INTERPRETERS)?;
                    let load = |package: &Package| {
                        let arguments = ("model", "model.pkl");
                        package.importer(&session)?.call_method("load_pickle", arguments)
                    };
                    let model = load(package);
                    loaded.wait();
                    let model = model?;
                    ensure!(is(&session, "equal", (&model, load(plain)?))?, "other weights");
                    let storages = call(&session, "storages", (&model,))?;
                    Ok(storages.extract::<std::collections::BTreeMap<u64, usize>>()?)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<_>>()
    })?;
    ensure!(found.iter().all(|storages| *storages == found[0]), "other addresses: {found:?}");
    let bytes: usize = found[0].values().sum();
    let uploaded = uploaded(pool)? - before.0;
    ensure!(bytes > 5000 && uploaded == bytes, "{uploaded} bytes uploaded of {bytes}");
    drop(package);
    collect(pool)?;
    let left = number(&pool.acquire_on(0)?, "allocated")? - before.1;
    ensure!(left == 0, "{left} bytes are left on the device");
    Ok(())
}

/// TorchScript, which torch reads and moves itself. Moved storages are replaced by those of one upload.
fn script_once(pool: &Pool, folder: &Path, plain: &Package) -> Result<()> {
    let first = pool.acquire_on(0)?;
    let before = number(&first, "allocated")?;
    let model = {
        let package = pool.load_package(folder.join("cpu.pt"))?;
        package.load_pickle_mapped("model", "script.pkl", "cuda")?
    };
    let mut found = Vec::new();
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let model = model.to_object(&session)?;
        let expected =
            plain.importer(&session)?.call_method("load_pickle", ("model", "model.pkl"))?;
        ensure!(is(&session, "equal", (&model, expected))?, "other weights");
        let storages = call(&session, "storages", (model,))?;
        found.push(storages.extract::<std::collections::BTreeMap<u64, usize>>()?);
    }
    ensure!(found.iter().all(|storages| *storages == found[0]), "other addresses: {found:?}");
    drop(model);
    collect(pool)?;
    let left = number(&first, "allocated")? - before;
    ensure!(left == 0, "{left} bytes of TorchScript are left on the device");
    Ok(())
}

/// The second interpreter has queued a copy from memory. That memory goes back to the first one's allocator, which hands it
/// out again.
fn given_back_after_the_device(pool: &Pool, folder: &Path, plain: &Package) -> Result<()> {
    let (first, second) = (pool.acquire_on(0)?, pool.acquire_on(1)?);
    let package = pool.load_package(folder.join("cuda_0.pt"))?;
    for session in [&first, &second] {
        let arguments = ("model", "model.pkl");
        let model = package.importer(session)?.call_method("load_pickle", arguments)?;
        if std::ptr::eq(session, &second) {
            call(session, "begin_reading", (&model,))?;
        }
    }
    drop(package);
    collect(pool)?;
    call(&first, "overwrite", ())?;
    let expected = plain.importer(&second)?.call_method("load_pickle", ("model", "model.pkl"))?;
    ensure!(is(&second, "end_reading", (expected,))?, "memory was reused while it was read");
    Ok(())
}

/// A movable of a tensor that is still being filled.
fn movable_in_order(pool: &Pool) -> Result<()> {
    let first = pool.acquire_on(0)?;
    let filled = call(&first, "filled_later", (4.0,))?;
    let movable = first.create_movable(&filled)?;
    call(&first, "default_stream", ())?;
    drop(filled);
    drop(first);
    let before = uploaded(pool)?;
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let tensor = movable.to_object(&session)?;
        ensure!(is(&session, "all_are", (tensor, 4.0))?, "handed over before it was filled");
    }
    ensure!(movable.copied().is_empty(), "{:?}", movable.copied());
    ensure!(uploaded(pool)? == before, "it went through main memory");
    Ok(())
}

/// A tensor that is still being filled goes from one interpreter to another, whose current stream is a different one.
fn tensor_in_order(pool: &Pool) -> Result<()> {
    let (first, second) = (pool.acquire_on(0)?, pool.acquire_on(1)?);
    for round in 0..2 {
        let value = 5.0 + f64::from(round);
        let tensor: Tensor = call(&first, "filled_later", (value,))?.extract()?;
        call(&second, if round == 0 { "default_stream" } else { "other_stream" }, ())?;
        ensure!(is(&second, "all_are", (&tensor, value))?, "taken in before it was filled");
        ensure!(tensor.to_vec::<f32>().is_err(), "device memory was read by the host");
        call(&second, "default_stream", ())?;
        call(&first, "default_stream", ())?;
    }
    Ok(())
}

/// An interpreter's end frees the blocks cached by its allocator. A shared allocator keeps them for the next interpreter.
fn given_back_at_the_end(pool: &Pool) -> Result<()> {
    let round = || {
        {
            let session = pool.acquire_on(INTERPRETERS - 1)?;
            prepare(&session)?;
            call(&session, "use_and_drop", ())?;
        }
        pool.replace(INTERPRETERS - 1)?.close(Duration::from_secs(30))?;
        number(&pool.acquire_on(0)?, "occupied")
    };
    let (before, mut after) = (round()?, 0);
    for _ in 0..3 {
        after = round()?;
    }
    let more = after.saturating_sub(before);
    // Each round has had 64 MiB. A driver keeps something of each libtorch.
    ensure!(more < 3 * (48 << 20), "{more} bytes of the device are left by three interpreters");
    Ok(())
}

/// Device memory that an interpreter's objects never free goes back at its end all the same.
fn given_back_by_nobody_else(pool: &Pool) -> Result<()> {
    let occupied = || -> Result<_> {
        let session = pool.acquire_on(0)?;
        Ok((number(&session, "occupied")?, number(&session, "things")?))
    };
    let (before, last) = (occupied()?, INTERPRETERS - 1);
    {
        let session = pool.acquire_on(last)?;
        prepare(&session)?;
        call(&session, "use_and_keep", ())?;
    }
    let (bytes, things) = occupied()?;
    ensure!(bytes >= before.0 + (16 << 20) && things >= before.1 + 3, "{bytes} {things}");
    pool.replace(last)?.close(Duration::from_secs(30))?;
    let after = occupied()?;
    ensure!(after == before, "{before:?} before, and {after:?} when the interpreter has ended");
    Ok(())
}

/// An interpreter with a limit stays below it, and another one takes more.
fn bounded(other: &Pool) -> Result<()> {
    let limit = 64 << 20;
    let builder = Pool::builder().interpreters(1).venv(place::venv()?);
    let pool = builder.device_memory_limit(limit).build()?;
    let session = pool.acquire_on(0)?;
    prepare(&session)?;
    ensure!(is(&session, "is_bounded", (limit,))?, "no error beyond the limit");
    call(&other.acquire_on(0)?, "take", (2 * limit,))?;
    Ok(())
}
