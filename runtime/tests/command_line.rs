//! `python ARGUMENTS` in an interpreter of this process.

mod pythons;

use hydrozoa::CommandLine;
use pythons::pythons;
use std::fs;
use std::path::Path;
use std::thread;

fn command(library: &Path, arguments: &[&str]) -> CommandLine {
    CommandLine::new(Some(library.to_owned()), None, arguments.iter().copied()).unwrap()
}

#[test]
fn the_exit_status_is_pythons() {
    for library in pythons().values() {
        let status = |arguments: &[&str]| command(library, arguments).run().unwrap();
        assert_eq!(status(&["-c", "pass"]), 0);
        assert_eq!(status(&["-c", "raise SystemExit(7)"]), 7);
        assert_eq!(status(&["-c", "import sys; sys.exit('said')"]), 1);
        assert_eq!(status(&["-c", "1/0"]), 1);
        assert_eq!(status(&["--no-such-option"]), 2);
        assert_eq!(status(&["no_such_script.py"]), 2);
        assert_eq!(status(&["--version"]), 0);
    }
}

#[test]
fn arguments_and_variables_are_the_commands_own() {
    for (minor, library) in pythons() {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command_line");
        fs::create_dir_all(&place).unwrap();
        let script = place.join(format!("script-3.{minor}.py"));
        let told = place.join(format!("told-3.{minor}"));
        fs::write(
            &script,
            "import os, sys, json\n\
             with open(sys.argv[1], 'w') as file:\n    \
             json.dump([sys.argv[2:], os.environ['HYDROZOA_COPY'], __name__, sys.path[0]], file)\n",
        )
        .unwrap();
        let status = command(
            library,
            &["-W", "ignore", script.to_str().unwrap(), told.to_str().unwrap(), "-x", "grüß"],
        )
        .variable("HYDROZOA_COPY", "3")
        .run()
        .unwrap();
        assert_eq!(status, 0);
        let expected = format!(
            "[[\"-x\", \"gr\\u00fc\\u00df\"], \"3\", \"__main__\", \"{}\"]",
            place.to_str().unwrap()
        );
        assert_eq!(fs::read_to_string(&told).unwrap(), expected);
        assert!(std::env::var_os("HYDROZOA_COPY").is_none());
    }
}

#[test]
fn several_commands_run_at_once() {
    for library in pythons().values() {
        thread::scope(|scope| {
            for number in 0..3 {
                scope.spawn(move || {
                    let code = format!("raise SystemExit(sum(range({})))", 5 + number);
                    let expected = (0..5 + number).sum::<i32>();
                    assert_eq!(command(library, &["-c", &code]).run().unwrap(), expected);
                });
            }
        });
    }
}
