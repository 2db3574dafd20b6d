//! An interpreter's memory on devices: within a bound, and until its end.

use crate::device::{END, with_device};
use hydrozoa::Pool;
use std::thread;
use std::time::Duration;

const KIB: usize = 1 << 10;

#[test]
fn device_memory_beyond_the_limit_is_refused_and_other_interpreters_have_theirs() {
    with_device!("bounded-device", "memory.c", |device| {
        let builder = device.pools().last().unwrap();
        let pool: Pool = builder.device_memory_limit(64 * KIB).build().unwrap();
        let [first, second] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
        let ask = |call: &str| device.ask(&first, call);
        assert_eq!((ask("total()"), ask("unused()")), (64 << 10, 64 << 10));
        let block = ask("take(40960)");
        assert!(block != 0);
        let later = ask("take_later(8192)");
        assert!(later != 0);
        assert_eq!(ask("unused()"), 16 << 10);
        for beyond in
            ["take(16385)", "take_later(20000)", "take_rows(512, 33)", "take_box(30, 30, 30)"]
        {
            assert_eq!(ask(beyond), 0, "{beyond}");
        }
        // A row takes 512 bytes.
        assert!(ask("take_rows(1, 16)") != 0 && ask("take_box(16, 16, 16)") != 0);
        assert_eq!(ask("unused()"), 4 << 10);
        assert_eq!(device.ask(&second, "unused()"), 64 << 10);
        assert!(device.ask(&second, "take(65536)") != 0);
        assert_eq!((ask(&format!("give({block})")), ask(&format!("give_later({later})"))), (0, 0));
        assert_eq!(ask("unused()"), 52 << 10);
        assert_eq!((ask("take(53249)"), ask("take(53248)") != 0), (0, true));
    });
}

#[test]
fn memory_that_another_interpreter_gives_back_is_no_longer_its_owner_s() {
    with_device!("passed-device-memory", "memory.c", |device| {
        let builder = device.pools().last().unwrap();
        let pool = builder.device_memory_limit(64 * KIB).build().unwrap();
        let block = device.ask(&pool.acquire_on(0).unwrap(), "take(65536)");
        assert_eq!(device.ask(&pool.acquire_on(1).unwrap(), &format!("give({block})")), 0);
        let owner = pool.acquire_on(0).unwrap();
        assert_eq!(device.ask(&owner, "unused()"), 64 << 10);
        // The place may be somebody else's now.
        let other = pool.acquire_on(1).unwrap();
        assert!(device.ask(&other, "take(65536)") != 0);
        drop(owner);
        pool.replace(0).unwrap().close(END).unwrap();
        assert_eq!(device.runtime(&other, "live_things()"), 1);
    });
}

#[test]
fn an_interpreter_s_end_gives_back_what_it_had_on_all_devices() {
    with_device!("given-back-device", "memory.c", |device| {
        for pool in device.pools() {
            let pool = pool.build().unwrap();
            let ask = |index: usize, call: &str| device.ask(&pool.acquire_on(index).unwrap(), call);
            let of_runtime = |call: &str| device.runtime(&pool.acquire_on(2).unwrap(), call);
            let waits = || [0, 1].map(|on| of_runtime(&format!("waits_for({on})")));
            for index in [0, 1] {
                assert_eq!(
                    (ask(index, "leave(0)"), ask(index, "leave(1)"), ask(index, "use()")),
                    (0, 0, 0)
                );
            }
            assert_eq!(of_runtime("live_things()"), 20);
            let before = waits();
            pool.replace(0).unwrap().close(END).unwrap();
            assert_eq!(of_runtime("live_things()"), 10);
            let after = waits();
            assert_eq!([after[0] - before[0], after[1] - before[1]], [1; 2]);
            // The new one has nothing yet, and has the account of the ended one.
            assert_eq!((ask(0, "leave(1)"), of_runtime("live_things()")), (0, 15));
            for index in [0, 1] {
                pool.replace(index).unwrap().close(END).unwrap();
            }
            assert_eq!(of_runtime("live_things()"), 0);
        }
    });
}

#[test]
fn an_interpreter_s_capture_of_a_graph_forbids_other_interpreters_nothing() {
    with_device!("captured-device", "memory.c", |device| {
        for pool in device.pools() {
            let pool = pool.build().unwrap();
            let ask = |index: usize, call: &str| device.ask(&pool.acquire_on(index).unwrap(), call);
            assert_eq!(ask(0, "begin_capture()"), 0);
            thread::scope(|scope| {
                assert_eq!(scope.spawn(|| ask(1, "take_a_little()")).join().unwrap(), 0);
                // The device is waited for when the capture has ended.
                let waiting = scope.spawn(|| ask(1, "wait_for_device()"));
                thread::sleep(Duration::from_millis(200));
                assert!(!waiting.is_finished());
                assert_eq!(ask(0, "end_capture()"), 0);
                assert_eq!(waiting.join().unwrap(), 0);
            });
            // It is waited for too while it begins, which takes a moment.
            thread::scope(|scope| {
                let beginning = scope.spawn(|| ask(0, "begin_capture()"));
                thread::sleep(Duration::from_millis(50));
                let waiting = scope.spawn(|| ask(1, "wait_for_device()"));
                assert_eq!((beginning.join().unwrap(), ask(0, "end_capture()")), (0, 0));
                assert_eq!(waiting.join().unwrap(), 0);
            });
            // Calls that are forbidden within an interpreter still fail.
            assert_eq!((ask(0, "begin_capture()"), ask(0, "wait_for_device()")), (0, 900));
            assert_eq!((ask(0, "end_capture()"), ask(1, "wait_for_device()")), (901, 0));
            // An interpreter that ends leaves no capture behind.
            assert_eq!(ask(0, "begin_capture()"), 0);
            pool.replace(0).unwrap().close(END).unwrap();
            assert_eq!(ask(1, "wait_for_device()"), 0);
        }
    });
}
