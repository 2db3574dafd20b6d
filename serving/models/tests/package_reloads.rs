//! Packages that change while they are served.

mod common;

use common::packages::{example, floats, load, package, put, request, tensor};
use common::{Repository, events, export, failure, response};
use hydrozoa::memory::Usage;
use hydrozoa_models::ModelState;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_failed_reload_of_a_package_keeps_what_serves_and_a_good_one_its_interpreters() {
    let repository = Repository::new();
    let first = load(&repository, "batches", "");
    let pool = first.pool().unwrap();
    let mark = |pool: &hydrozoa::Pool| {
        pool.acquire().unwrap().run("import sys\nsys.marked = True", "mark").map(drop)
    };
    mark(&pool).unwrap();
    let is_marked = |pool: &hydrozoa::Pool| {
        let session = pool.acquire().unwrap();
        session.eval("hasattr(__import__('sys'), 'marked')").unwrap().extract::<bool>().unwrap()
    };
    let server = &repository.server;
    put(&repository, "batches", 2, "", &package("fails.pt"));
    let error = server.load("batches").unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("RuntimeError: not today"), "{error}");
    let ask = || request(vec![tensor("x", &[1, 3], &[1.0, 2.0, 3.0])]);
    let kept = server.model("batches", None).unwrap();
    assert!(Arc::ptr_eq(&first, &kept));
    assert!(
        matches!(&server.index()[0].state, ModelState::Failed(why) if why.contains("not today"))
    );
    assert_eq!(floats(&response(&kept, ask()).unwrap(), "OUTPUT__0"), [2.0, 4.0, 6.0]);
    // A version that replaces another one takes its interpreters over, and finds no module of it there.
    put(&repository, "batches", 2, "", &package("scores.pt"));
    server.load("batches").unwrap();
    let second = server.model("batches", None).unwrap();
    let now = second.pool().unwrap();
    assert!(is_marked(&now));
    assert!(first.pool().is_none());
    assert!(failure(&first, ask()).contains("unloaded"));
    assert!(response(&second, example()).is_ok());
    let session = now.acquire().unwrap();
    let count = "len({n.partition('>')[0] for n in __import__('sys').modules if n.startswith('<torch_package')})";
    assert_eq!(session.eval(count).unwrap().extract::<usize>().unwrap(), 1);
    drop(session);
    // Other settings need other interpreters.
    let config = "instance_group { count: 2 }";
    put(&repository, "batches", 2, config, &package("scores.pt"));
    server.load("batches").unwrap();
    assert!(second.pool().is_none());
    let third = server.model("batches", None).unwrap();
    let new = third.pool().unwrap();
    assert!(new.interpreters().len() == 2 && !is_marked(&new));
    assert!(response(&third, example()).is_ok());
    drop((pool, now, new));
    server.unload("batches").unwrap();
    assert!(events(&third, example())[0].response.as_ref().unwrap().is_err());
}

/// How often a package changes: `HYDROZOA_TEST_RELOADS`, or `few`.
fn reloads(few: usize) -> usize {
    std::env::var("HYDROZOA_TEST_RELOADS").map_or(few, |text| text.parse().unwrap())
}

fn patience(reloads: usize) -> Duration {
    PATIENCE + Duration::from_secs(10) * reloads as u32
}

#[test]
fn reloads_of_a_changing_package_under_load_lose_nothing() {
    let count = reloads(8);
    alone(patience(count), || reload("tensors", count));
}

#[test]
fn reloads_of_a_changing_package_without_torch_lose_nothing() {
    let count = reloads(100);
    alone(patience(count), || reload("arrays", count));
}

/// Changes a package while it is served. From 100 changes on the process's memory is compared, too.
fn reload(kind: &str, reloads: usize) {
    let folder = tempfile::tempdir().unwrap();
    export(folder.path(), &[&reloads.to_string(), kind]);
    let of = |version: usize| folder.path().join(format!("version_{version}.pt"));
    let repository = Repository::new();
    let put = |version: usize| {
        let config = "instance_group { count: 2 }";
        put(&repository, "m", 1, config, &of(version));
        repository.server.load("m").unwrap();
    };
    put(0);
    // A request that comes after a reload has ended gets its version or a later one.
    let (published, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let ask = || {
        let least = published.load(Ordering::SeqCst);
        let (sender, answers) = channel();
        let request = request(vec![tensor("x", &[2], &[0.0; 2])]);
        let respond = move |event: hydrozoa_models::Event| drop(sender.send(event.response));
        let (_, _ticket) = repository.server.infer("m", None, request, respond).unwrap();
        let response = answers.recv().unwrap().unwrap().unwrap();
        let found = floats(&response, "OUTPUT__0");
        assert_eq!(found[0], found[1], "weights of one version, and code of another");
        let found = found[0] as usize;
        assert!(found >= least, "version {found} after {least}");
        found
    };
    let mut private = Vec::new();
    let count: usize = std::thread::scope(|scope| {
        let client = || {
            let (mut last, mut count) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let found = ask();
                assert!(found >= last, "version {found} after {last}");
                (last, count) = (found, count + 1);
                // The load leaves the reloads some time of the processor.
                std::thread::sleep(Duration::from_millis(2));
            }
            count
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(client)).collect();
        for version in 1..=reloads {
            put(version);
            published.store(version, Ordering::SeqCst);
            assert_eq!(ask(), version);
            if version % (reloads / 20).max(1) == 0 {
                private.push(Usage::of_process().unwrap().private);
                println!("version {version}: {} KiB private", private[private.len() - 1] >> 10);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let model = repository.server.model("m", None).unwrap();
    assert_eq!((model.statistics().failed, model.waiting()), (0, 0));
    assert!(count > reloads, "{count} requests beside {reloads} reloads");
    println!("{count} requests");
    if reloads >= 100 {
        // The first fifth is warm-up.
        let (start, end) = (private[private.len() / 5], private[private.len() - 1]);
        // A hundred reloads beside a busy machine's threads are too few to tell 2 KiB each from pages that are touched once.
        let once = if reloads < 1000 { 128 << 10 } else { 0 };
        let each = (end - start - once) / (reloads * 4 / 5) as i64;
        println!("{each} bytes for each reload, and {once} once");
        assert!(each < 2048, "a reload leaves {each} bytes");
    }
}
