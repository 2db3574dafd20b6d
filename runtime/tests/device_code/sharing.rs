//! Device code without state exists once.

use crate::device::{Device, END, with_device};
use hydrozoa::{Pool, Session};
use std::thread;

/// The kernels of library.c: those of the first two are registered once, the last one for each interpreter.
const KERNELS: [&str; 3] = ["plain", "tagged", "counting"];

/// The ways in which library.c launches, with how often each does so.
const WAYS: [(&str, i64); 4] =
    [("launch", 1), ("launch_by_configuration", 1), ("launch_by_handle", 2), ("launch_by_node", 2)];

/// Binaries, kernels and variables that the runtime has.
fn registered(device: &Device, session: &Session) -> [i64; 3] {
    ["binaries", "kernels", "variables"]
        .map(|what| device.runtime(session, &format!("registered_{what}()")))
}

/// Launches each kernel in each way, and returns by how much the runtime's counts have grown.
fn launched(device: &Device, session: &Session) -> [i64; 3] {
    let counts = || KERNELS.map(|name| device.runtime(session, &format!("launches(b'{name}')")));
    let before = counts();
    for (which, kernel) in KERNELS.iter().enumerate() {
        for (way, _) in WAYS {
            let status = device.ask(session, &format!("{way}({which}, {})", which + 1));
            assert_eq!(status, 0, "{way} of {kernel}");
        }
    }
    let after = counts();
    [0, 1, 2].map(|which| after[which] - before[which])
}

/// The value of [`launched`] if all launches reach their kernels.
fn expected() -> [i64; 3] {
    let launches: i64 = WAYS.iter().map(|(_, times)| times).sum();
    [1, 2, 3].map(|times| times * launches)
}

/// All interpreters of a pool load the library at once.
fn loaded_at_once(device: &Device, pool: &Pool) {
    thread::scope(|scope| {
        for index in 0..3 {
            scope.spawn(move || {
                assert_eq!(device.ask(&pool.acquire_on(index).unwrap(), "counted()"), 0)
            });
        }
    });
}

#[test]
fn device_code_without_state_is_registered_once_and_serves_all_interpreters() {
    with_device!("shared-kernels", "library.c", |device| {
        let mut before = [0; 3];
        for (index, pool) in device.pools().enumerate() {
            let pool = pool.build().unwrap();
            loaded_at_once(device, &pool);
            for index in 0..3 {
                let session = pool.acquire_on(index).unwrap();
                assert_eq!(launched(device, &session), expected(), "interpreter {index}");
                assert_eq!(device.ask(&session, "occupancy(0)"), 34);
            }
            let session = pool.acquire_on(0).unwrap();
            let after = registered(device, &session);
            let own = [3, 3, 3];
            let shared = if index == 0 { [2, 2, 1] } else { [0; 3] };
            for place in 0..3 {
                assert_eq!(after[place] - before[place], own[place] + shared[place], "{after:?}");
            }
            before = after;
        }
    });
}

#[test]
fn variables_of_device_code_are_each_interpreter_s_own() {
    with_device!("own-variables", "library.c", |device| {
        let pool = device.pools().last().unwrap().build().unwrap();
        let sessions = [0, 1, 2].map(|index| pool.acquire_on(index).unwrap());
        for (session, times) in sessions.iter().zip(0..) {
            assert_eq!(device.ask(session, &format!("set_counter({times}00)")), 0);
            for _ in 0..times {
                assert_eq!(device.ask(session, "launch(2, 1)"), 0);
            }
        }
        let counted = sessions.each_ref().map(|session| device.ask(session, "counted()"));
        assert_eq!(counted, [0, 101, 202]);
        let tags = sessions.each_ref().map(|session| device.ask(session, "address_of_tag()"));
        assert!(tags[0] != 0 && tags == [tags[0]; 3], "{tags:x?}");
        // cudaErrorNotPermitted
        assert_eq!(device.ask(&sessions[1], "set_tag(3)"), 800);
    });
}

#[test]
fn device_code_outlives_the_interpreter_that_has_registered_it() {
    with_device!("outlived-kernels", "library.c", |device| {
        let pool = device.pools().last().unwrap().build().unwrap();
        for index in 0..3 {
            assert_eq!(device.ask(&pool.acquire_on(index).unwrap(), "launch(0, 1)"), 0);
        }
        for index in [0, 0, 1] {
            pool.replace(index).unwrap().close(END).unwrap();
            let session = pool.acquire_on(index).unwrap();
            // Those of the other two have their own variables still.
            assert_eq!(device.runtime(&session, "alive_binaries()"), 2 + 2);
            for index in [2, index] {
                let session = pool.acquire_on(index).unwrap();
                assert_eq!(launched(device, &session), expected(), "interpreter {index}");
            }
        }
        let session = pool.acquire_on(0).unwrap();
        assert_eq!(registered(device, &session), [2 + 6, 2 + 6, 1 + 6]);
    });
}

#[test]
fn a_kernel_has_the_largest_limit_that_an_interpreter_has_set() {
    with_device!("limits-of-kernels", "library.c", |device| {
        let pool = device.pools().last().unwrap().build().unwrap();
        let [first, second, third] = [0, 1, 2].map(|index| pool.acquire_on(index).unwrap());
        for (session, value) in [(&first, 100), (&second, 64), (&third, 96)] {
            for which in [0, 2] {
                assert_eq!(device.ask(session, &format!("set_attribute({which}, {value})")), 0);
            }
        }
        let of = |which: usize| {
            [&first, &second, &third]
                .map(|session| device.ask(session, &format!("attribute({which})")))
        };
        assert_eq!((of(0), of(1), of(2)), ([100; 3], [48; 3], [100, 64, 96]));
    });
}
