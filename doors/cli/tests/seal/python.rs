//! The Python in an application is the one that was sealed, and a program finds itself in it as in a file of its own.

use crate::application::{application, plain, run, seal};
use std::fs;

#[test]
fn a_program_has_its_own_arguments_and_the_application_s_paths() {
    let file = application().file();
    let code = "print(__name__, sys.argv[0], sys.argv[3:], sys.executable, sys.prefix, __file__, sys.path[0])";
    let said = run(application().command(code).args(["-c", "--help"]));
    let path = file.to_str().unwrap();
    assert_eq!(
        said,
        format!(
            "__main__ {path} ['-c', '--help'] {path} /<sealed> /<sealed>/app/program.py /<sealed>/app\n"
        )
    );
}

#[test]
fn the_exit_status_is_the_program_s() {
    let status = |code: &str| application().command(code).output().unwrap().status.code();
    assert_eq!(status("sys.exit(7)"), Some(7));
    let output = application().command("raise KeyError('apples')").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("/<sealed>/app/program.py\", line 9") && text.contains("KeyError: 'apples'"),
        "{text}"
    );
    assert!(text.contains("exec(text"), "the line of the source is shown: {text}");
}

#[test]
fn modules_have_the_attributes_that_plain_python_gives_them() {
    // Of modules that exist before the finder does, of frozen ones, packages, extension modules and others.
    let code = "
import sys, os, io, abc, codecs, encodings, encodings.utf_8, json, json.decoder, _ctypes, _collections_abc, ctypes
import importlib.util, sysconfig
prefix = sys.base_prefix
names = ('os', 'io', 'abc', 'codecs', 'encodings', 'encodings.utf_8', 'json', 'json.decoder', '_ctypes', 'posixpath',
         '_collections_abc', 'stat', 'ctypes', 'sysconfig')
for name in names:
    module = sys.modules[name]
    spec = module.__spec__
    of = lambda value: str(value).replace(prefix, 'PREFIX')
    print(name, of(getattr(module, '__file__', None)), of(getattr(module, '__path__', None)), module.__package__,
          of(spec.origin), spec.has_location, of(spec.cached), spec.parent, of(spec.submodule_search_locations))
print(sorted(set(dir(__builtins__)))[-20:], repr(exit), copyright.__class__.__name__)
";
    let code = format!("import builtins as __builtins__\n{code}");
    assert_eq!(application().says(&code), plain(&code));
}

#[test]
fn subprocess_and_multiprocessing_start_the_application_as_a_python() {
    let code = "
import subprocess, multiprocessing
ask = lambda *words, **more: subprocess.run([sys.executable, *words], capture_output=True, text=True, **more)
print(ask('-c', 'import sys; print(sys.argv, 6 * 7)', 'x').stdout, end='')
print(ask('-c', 'print(1)', env={}).stdout, end='')
print(ask('-m', 'json.tool', input='[1]').stdout, end='')
print(ask('say', 'print(2)').stdout, end='')
with multiprocessing.get_context('spawn').Pool(2) as pool:
    print(pool.map(square, range(4)))
";
    let said = application().says(code);
    assert_eq!(said, "['-c', 'x'] 42\n1\n[\n    1\n]\n2\n[0, 1, 4, 9]\n");
}

#[test]
fn an_entry_is_called_and_its_result_is_the_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("tool.py"),
        "import sys\n\ndef main():\n    print(sys.argv[1:])\n    return 3\n",
    )
    .unwrap();
    let file = folder.path().join("app");
    run(seal(&file).arg("--app").arg(folder.path()).args(["--entry", "tool:main"]));
    let output = std::process::Command::new(&file).args(["-m", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "['-m', 'x']\n");
    let missing = seal(&file).args(["--entry", "nowhere:main"]).output().unwrap();
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && text.contains("nowhere"), "{text}");
}

#[test]
fn several_interpreters_run_the_program_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("count.py");
    fs::write(
        &script,
        "import os, json\nprint(os.environ['HYDROZOA_COPY'], id(json) and json.dumps([1]))\n",
    )
    .unwrap();
    let file = folder.path().join("app");
    run(seal(&file).arg("--script").arg(&script).args(["--copies", "3"]));
    let said = run(&mut std::process::Command::new(&file));
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1 [1]", "2 [1]", "3 [1]"]);
}
