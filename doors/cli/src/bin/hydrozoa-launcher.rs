//! The executable that `hydrozoa seal` puts an application behind, unless that serves models: the runtime, and no server.

#![cfg_attr(not(test), no_main)]

use std::env;

use hydrozoa::sealed;

#[cfg(not(test))]
hydrozoa::c_main!(begin);

#[cfg_attr(test, expect(dead_code, reason = "the test harness has an entry of its own"))]
fn begin() -> i32 {
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let outcome = match sealed::application() {
        Ok(Some(application)) => application.run(&program, arguments.collect()),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(Some(status)) => status,
        Ok(None) => {
            eprintln!(
                "hydrozoa-launcher: `hydrozoa seal` makes applications of it; by itself it does nothing"
            );
            2
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}
