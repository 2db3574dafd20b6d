//! The memory of an interpreter, by owners (`Interpreter::memory`), and the Python packages with the most objects.

mod common;
mod pythons;

use hydrozoa::memory::Usage;
use hydrozoa::{Builder, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use pythons::{builders, each_pool_alone, pools, pythons, without_packages};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Asserts that a third interpreter that imports `modules` adds to the process what it has by owners, except for at most
/// `malloc` bytes, which cannot be attributed.
fn assert_sums_agree(builder: Builder, modules: &[&str], malloc: u64) {
    let pool = builder.interpreters(2).build().unwrap();
    let import = |index| {
        let session = pool.acquire_on(index).unwrap();
        modules.iter().for_each(|name| drop(session.import(name).unwrap()));
    };
    // The first ones also pay for everything shared: images, plans, the host's own heap.
    import(0);
    import(1);
    let before = Usage::of_process().unwrap();
    pool.resize(3).unwrap();
    import(2);
    let grown = (Usage::of_process().unwrap() - before).private as u64;
    let memory = pool.interpreters()[2].memory().unwrap();
    println!("{modules:?}: the process has grown by {grown} bytes\n{memory}");
    assert!(grown.abs_diff(memory.private()) <= malloc, "{grown}, {memory:?}");
    // Each owner is there: a word in the wrong row would not change the sum.
    let rows = [memory.replicas(), memory.raw_heap, memory.arenas, memory.stacks];
    assert!(rows.iter().all(|&bytes| bytes > 4096), "{memory:?}");
    assert!(memory.replicas() > 200 << 10 && memory.raw_heap > 500 << 10, "{memory:?}");
    assert!(memory.stacks < MIB && memory.arenas > MIB / 2, "{memory:?}");
    assert!(memory.proportional > memory.private() && memory.of_files > MIB, "{memory:?}");
    let tables = memory.page_tables / 4096;
    assert!((1..=memory.mappings * 2 + 40).contains(&tables), "{memory:?}");
    let all: u64 = pool.interpreters().iter().map(|one| one.memory().unwrap().private()).sum();
    let memory = pool.interpreters()[0].memory().unwrap();
    assert!(all.abs_diff(memory.private() + memory.others) <= 64 << 10, "{all}, {memory:?}");
}

#[test]
fn a_bare_interpreter_s_memory_by_owners_is_what_the_process_has_grown_by() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            assert_sums_agree(builder, &[], 256 << 10);
        }
    });
}

/// `HYDROZOA_TEST_INTERPRETERS` sets how many there are in the end.
#[test]
fn bare_interpreters_take_little_memory_and_each_as_much_as_the_others() {
    let count = std::env::var("HYDROZOA_TEST_INTERPRETERS");
    let count: usize = count.map_or(26, |text| text.parse().unwrap());
    alone(PATIENCE, || {
        for (&minor, library) in pythons() {
            let (venv, _) = without_packages("bare", minor, library);
            let pool = Pool::builder().venv(venv).python(library).interpreters(2).build().unwrap();
            let mut before = Usage::of_process().unwrap();
            let mut grow = |to: usize| {
                let more = (to - pool.interpreters().len()) as f64;
                pool.resize(to).unwrap();
                let now = Usage::of_process().unwrap();
                let grown = (now - std::mem::replace(&mut before, now)).private as f64;
                grown / more / MIB as f64
            };
            let [first, last] = [grow(count / 2 + 1), grow(count)];
            println!("3.{minor}: {first:.2} MiB, then {last:.2} for each of {count}");
            assert!(first < 3.3 && last < 3.3, "3.{minor}: {first:.2} MiB, then {last:.2}");
            assert!(last < 1.03 * first, "3.{minor}: {first:.2} MiB, then {last:.2}");
            let settled = settled(&pool);
            println!("3.{minor}: {settled:.2} MiB for each when settled");
            assert!(settled < 0.8, "3.{minor}: {settled:.2} MiB");
        }
    });
}

/// The average memory, in MiB, of a pool's interpreters that were settled after their first call and then called again.
fn settled(pool: &Pool) -> f64 {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settled bare");
    std::fs::create_dir_all(&folder).unwrap();
    let interpreters = pool.interpreters();
    let each = interpreters.iter().map(|interpreter| {
        let call = || run(&interpreter.session(), "assert sum(range(100)) == 4950");
        call();
        interpreter.settle(&folder).unwrap();
        (0..10).for_each(|_| call());
        interpreter.memory().unwrap().private() as f64
    });
    each.sum::<f64>() / interpreters.len() as f64 / MIB as f64
}

#[test]
fn an_interpreter_s_memory_with_numpy_by_owners_is_what_the_process_has_grown_by() {
    alone(PATIENCE, || {
        assert_sums_agree(Pool::builder().venv(common::venv()), &["numpy"], MIB);
    });
}

fn run(session: &Session, code: &str) {
    session.run(code, "holds.py").unwrap();
}

#[test]
fn a_library_that_writes_its_data_is_named_first() {
    alone(PATIENCE, || {
        let shop = Workshop::new("breakdown");
        let source = "static volatile char data[8 << 20];
                      void fill(void) { for (int i = 0; i < sizeof data; i += 512) data[i] = 1; }";
        let library = shop.build("libdirty.so", source, &[]);
        for pool in pools(2) {
            let session = pool.acquire_on(1).unwrap();
            let memory = || session.interpreter().memory().unwrap();
            let code =
                format!("import ctypes, builtins\nbuiltins.dirty = ctypes.CDLL({library:?})");
            run(&session, &code);
            let before = memory();
            assert_ne!(before.libraries[0].path, library);
            run(&session, "dirty.fill()");
            let after = memory();
            assert_eq!(after.libraries[0].path, library);
            assert!(after.libraries[0].private >= 8 * MIB, "{after:?}");
            assert!((after.private() - before.private()).abs_diff(8 * MIB) < MIB, "{after:?}");
            let of_libraries = "libraries with the most private memory:\n     8.0";
            assert!(after.to_string().contains(of_libraries), "{after}");
            let neighbour = pool.interpreters()[0].memory().unwrap();
            assert!(neighbour.private() < 8 * MIB, "{neighbour:?}");
        }
    });
}

#[test]
fn memory_of_each_kind_is_in_the_row_of_its_owner() {
    alone(PATIENCE, || {
        let shop = Workshop::new("breakdown-objects");
        let source =
            "void *volatile last;
                      extern \"C\" void make() { for (int i = 0; i < 8 << 10; i++) last = new char[1000](); }";
        let objects = shop.build("libobjects++.so", source, &[]);
        for pool in pools(2) {
            let session = pool.acquire_on(1).unwrap();
            let memory = || session.interpreter().memory().unwrap();
            // 8 MiB are written, which grow the row with this place. The program's own memory grows too: by the loader's
            // notes of a library, and by the text of /proc that is measured.
            let grows = |place: usize, code: &str| {
                let before = memory();
                run(&session, code);
                let after = memory();
                let row = |row: fn(&hydrozoa::memory::InterpreterMemory) -> u64| {
                    (row(&after) as f64 - row(&before) as f64) / MIB as f64
                };
                let rows = [
                    row(|memory| memory.raw_heap),
                    row(|memory| memory.arenas),
                    row(|memory| memory.native_heap),
                    row(|memory| memory.mapped),
                    row(|memory| memory.stacks),
                ];
                let around = rows.iter().sum::<f64>() - rows[place];
                let program = row(|memory| memory.unattributed());
                assert!(
                    (7.5..9.0).contains(&rows[place]) && around < 1.0 && program < 4.0,
                    "{code}\n{rows:?}, and the program {program}"
                );
            };
            let [raw, native, mapped] = [0, 2, 3];
            grows(
                raw,
                "import builtins\nbuiltins.held = held = bytearray(8 << 20)\n\
                       for i in range(0, 8 << 20, 512): held[i] = 1",
            );
            grows(
                mapped,
                "import builtins, mmap\nbuiltins.map = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
                       for i in range(0, 8 << 20, 4096): map[i] = 1",
            );
            grows(native, &format!("import ctypes\nctypes.CDLL({objects:?}).make()"));
            grows(
                native,
                "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n\
                 libc.malloc.argtypes = [ctypes.c_size_t]\n\
                 ctypes.memset(libc.malloc(8 << 20), 1, 8 << 20)",
            );
        }
    });
}

/// As malloc gives them in plain python: the kernel's page of zeros stands for them.
#[test]
fn zeros_that_python_asks_for_take_no_memory_until_they_are_written() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let raw_heap = || session.interpreter().memory().unwrap().raw_heap;
        let before = raw_heap();
        run(&session, "import builtins\nbuiltins.held = bytes(8 << 20)\nassert not any(held)");
        let zeros = raw_heap() - before;
        assert!(zeros < MIB / 2, "{zeros}");
        // The same memory again, in which there is something now.
        run(&session, "import builtins\ndel builtins.held\nbuiltins.held = b'1' * (8 << 20)");
        assert!(raw_heap() - before > 7 * MIB);
        run(&session, "import builtins\ndel builtins.held\nassert not any(bytes(8 << 20))");
    });
}

#[test]
fn stacks_of_threads_count_while_the_threads_run() {
    alone(PATIENCE, || {
        let shop = Workshop::new("breakdown-stacks");
        let source = "void deep(void) { volatile char frame[4 << 20];
                      for (int i = 0; i < sizeof frame; i += 512) frame[i] = 1; }";
        let library = shop.build("libdeep.so", source, &[]);
        let code = format!(
            "import builtins, ctypes, threading\ndeep = ctypes.CDLL({library:?}).deep\n\
             builtins.end = threading.Event()\nis_deep = threading.Event()\n\
             def work(): deep(); is_deep.set(); end.wait()\n\
             builtins.worker = threading.Thread(target=work)\nworker.start()\nis_deep.wait()"
        );
        for pool in pools(1) {
            let session = pool.acquire().unwrap();
            let stacks = || session.interpreter().memory().unwrap().stacks;
            let before = stacks();
            run(&session, &code);
            let during = stacks();
            assert!((4 * MIB..5 * MIB).contains(&(during - before)), "{before}, {during}");
            run(&session, "end.set(); worker.join()");
            // The kernel has the thread for a moment after Python has joined it.
            let end = Instant::now() + PATIENCE / 2;
            while stacks() >= before + MIB {
                assert!(Instant::now() < end, "{before}, {during}, {}", stacks());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

#[test]
fn a_package_that_holds_objects_is_named_first() {
    alone(PATIENCE, || {
        let shop = Workshop::new("breakdown-package");
        let folder = shop.path("site/holder");
        std::fs::create_dir_all(&folder).unwrap();
        // A value of each kind of way from the module: a class's table, a cell of a function, a module that is no more than
        // an attribute. An object that another package only refers to does not belong to that one.
        let source = "import types\nclass Kept:\n    table = {}\ndef keep(held):\n    return lambda: held\n\
                      for i in range(40): Kept.table[i] = bytes(range(256)) * 1024\n\
                      hidden = keep([bytes([i]) * (256 << 10) for i in range(24)])\n\
                      inner = types.ModuleType('inner'); inner.data = [float(i) for i in range(160_000)]\n";
        std::fs::write(folder.join("__init__.py"), "").unwrap();
        std::fs::write(folder.join("data.py"), source).unwrap();
        std::fs::write(
            folder.with_file_name("borrower.py"),
            "from holder.data import Kept, hidden, inner\nimport holder.data as whole\ntable = Kept.table\n",
        )
        .unwrap();
        for builder in builders(1) {
            let pool = builder.path(shop.path("site")).build().unwrap();
            let session = pool.acquire().unwrap();
            let packages = || session.interpreter().packages().unwrap();
            let before = packages();
            assert!(before.iter().all(|package| package.name.as_deref() != Some("holder")));
            session.import("borrower").unwrap();
            let after = packages();
            let (first, name) = (&after[0], after[0].name.as_deref());
            assert_eq!(name, Some("holder"), "{:?}", &after[..3]);
            assert!((20 * MIB..24 * MIB).contains(&first.bytes), "{first:?}");
            assert!((160_000..161_000).contains(&first.objects), "{first:?}");
            let borrower = after.iter().find(|one| one.name.as_deref() == Some("borrower"));
            assert!(borrower.unwrap().bytes < 64 << 10, "{borrower:?}");
            // It looks, and changes nothing.
            let again = packages();
            assert_eq!(again[0].objects, first.objects);
        }
    });
}

#[test]
fn packages_are_measured_while_others_work_and_change_what_is_measured() {
    each_pool_alone(1, |pool| {
        let (stop, stopped) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let pool = &pool;
            scope.spawn(move || {
                let session = pool.acquire().unwrap();
                let code = "import types\nmade = {}\n\
                                def work(n):\n    made.clear()\n    for i in range(2000): made[str(i) * 9] = [types.ModuleType('m'), {}]\n";
                let work = session.run(code, "work.py").unwrap().getattr("work").unwrap();
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    work.call((1,)).unwrap();
                }
            });
            for _ in 0..30 {
                let packages = pool.interpreters()[0].packages().unwrap();
                assert!(packages.iter().any(|one| one.name.as_deref() == Some("sys")));
            }
            drop(stop);
        });
    });
}
