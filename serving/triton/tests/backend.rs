//! The backend under a stand-in of Triton's core (`standin/core.c`): what a real server gives seldom. `cargo xtask lab triton`
//! and a step of `cargo xtask test` run it in a real one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const MODEL: &str = "
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        assert request.correlation_id() == 'seven'
        if request.is_cancelled():
            error = pb_utils.TritonError('the client has gone', pb_utils.TritonError.CANCELLED)
            return pb_utils.InferenceResponse(error=error)
        x = pb_utils.get_input_tensor_by_name(request, 'X').as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor('Y', np.sqrt(x))])
";

/// The backend as `cargo xtask backend --install` installs it, once for this test program.
fn backends() -> &'static Path {
    static BACKENDS: OnceLock<PathBuf> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("backends");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["xtask", "backend", "--as-python", "--install"]).arg(&folder);
        // The suite names what it has built.
        match std::env::var_os("HYDROZOA_TEST_BUILT") {
            Some(built) => cargo.arg("--built").arg(built),
            None => cargo.arg("--dev"),
        };
        run(cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()));
        folder
    })
}

fn built() -> PathBuf {
    backends().join("hydrozoa/libtriton_hydrozoa.so")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text.into_owned()
}

/// A stand-in, a model and settings.
struct Case {
    folder: tempfile::TempDir,
    defines: &'static [&'static str],
    model: &'static str,
    parameters: &'static str,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, defines: &[], model: MODEL, parameters: "{}" }
    }

    fn compile(&self, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let path = self.folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin").join(source);
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror"]).args(arguments);
        run(compiler.arg("-o").arg(&path).arg(source).arg("-ldl"));
        path
    }

    /// The output of the stand-in.
    fn prints(&self) -> String {
        let venv = std::env::var("HYDROZOA_TEST_VENV").expect("`cargo xtask test` makes it");
        let core = [&["-shared", "-fPIC"], self.defines].concat();
        let core = self.compile("libtritonserver-standin.so", "core.c", &core);
        let program = self.compile("program", "program.c", &[]);
        let version = self.folder.path().join("odd/1");
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("model.py"), self.model).unwrap();
        let of_model = format!(
            "{{\"name\": \"odd\", \"backend\": \"hydrozoa\", \"max_batch_size\": 0, \"parameters\": {}}}",
            self.parameters
        );
        let of_backend = format!("{{\"cmdline\": {{\"venv\": \"{venv}\", \"new\": \"1\"}}}}");
        let mut command = Command::new(program);
        command.arg(core).arg(built()).arg(self.folder.path().join("odd"));
        run(command.arg(of_model).arg(of_backend))
    }
}

/// The lines that begin with these words, without them.
fn lines<'t>(text: &'t str, words: &str) -> BTreeSet<&'t str> {
    text.lines().filter_map(|line| line.strip_prefix(words)).collect()
}

const NOTHING_LEFT: &str = "left: 0 errors, 0 messages, 0 factories, 0 responses, 0 requests";

#[test]
fn a_backend_gives_back_all_that_it_got() {
    let text = Case::new().prints();
    let expected = [
        "0, flags 1: 1 2 3 4",
        "1, flags 1: 1 2 3 4",
        "2, flags 1: error 5, input 'X' is in memory of GPU 0; this backend takes inputs in memory of the processor",
        "3, flags 1: error 5, output 'Y' is wanted in memory of GPU 0; this backend gives outputs in memory of the processor",
        "4, flags 1: error 3, input 'X' has 16 bytes, which are not those of extents [3]",
        "5, flags 1: error 7, the client has gone",
        "6, flags 1:",
    ];
    assert_eq!(lines(&text, "response "), BTreeSet::from(expected), "{text}");
    let released: Vec<String> = (0..7).map(|number| format!("{number} with 1")).collect();
    let released: BTreeSet<&str> = released.iter().map(String::as_str).collect();
    assert_eq!(lines(&text, "released "), released);
    let failed = lines(&text, "statistics ").into_iter().filter(|line| line.contains("failure"));
    let expected = ["2: failure", "3: failure", "4: failure", "5: failure"];
    assert_eq!(failed.collect::<Vec<_>>(), expected);
    assert_eq!(lines(&text, "batch of "), BTreeSet::from(["5"]));
    assert!(!text.contains("DISORDER") && text.ends_with(&format!("{NOTHING_LEFT}\n")), "{text}");
    assert!(text.contains("the backend has no setting `new`"), "{text}");
}

#[test]
fn a_model_that_keeps_a_lent_input_is_told_of() {
    let parameters = r#"{"HYDROZOA_INPUTS": {"string_value": "lent"}}"#;
    let text = Case { parameters, ..Case::new() }.prints();
    assert!(!text.contains("keeps an input"), "{text}");
    let model = "
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        self.kept = [pb_utils.get_input_tensor_by_name(request, 'X').as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', x)]) for x in self.kept]
";
    let text = Case { parameters, model, ..Case::new() }.prints();
    assert!(text.contains("a model keeps an input that is lent to it"), "{text}");
    assert!(text.ends_with(&format!("{NOTHING_LEFT}\n")), "{text}");
}

#[test]
fn a_server_that_lacks_a_function_is_refused_by_its_name() {
    let text = Case { defines: &["-DOLD"], ..Case::new() }.prints();
    let expected = "backend: error 5, this backend needs a later Triton: the server has no function TRITONSERVER_MetricObserve\n";
    assert_eq!(text, expected);
    let text = Case { defines: &["-DMAJOR=2"], ..Case::new() }.prints();
    let expected = "backend: error 5, this backend is for version 1 of the backend interface, and the server has 2.19\n";
    assert_eq!(text, expected);
}

#[test]
fn a_model_that_cannot_start_says_why() {
    for (model, parameters, words) in [
        ("raise ImportError('not today')", "{}", "not today"),
        ("class TritonPythonModel: pass; x = 1 / 0", "{}", "ZeroDivisionError"),
        (
            MODEL,
            r#"{"HYDROZOA_INPUTS": {"string_value": "moved"}}"#,
            "model: error 3, parameter HYDROZOA_INPUTS",
        ),
        (
            MODEL,
            r#"{"EXECUTION_ENV_PATH": {"string_value": "/nowhere"}}"#,
            "instance: error 3, parameter EXECUTION_ENV_PATH: /nowhere is not a folder",
        ),
    ] {
        let text = Case { model, parameters, ..Case::new() }.prints();
        assert!(text.contains(words) && text.contains("error "), "{text}");
        assert!(text.ends_with(&format!("{NOTHING_LEFT}\n")), "{text}");
    }
}

#[test]
fn the_backend_exports_the_functions_of_the_interface_and_nothing_else() {
    let bytes = fs::read(built()).unwrap();
    let library = goblin::elf::Elf::parse(&bytes).unwrap();
    let exported: Vec<&str> = library
        .dynsyms
        .iter()
        .filter(|symbol| !symbol.is_import())
        .filter_map(|symbol| library.dynstrtab.get_at(symbol.st_name))
        .filter(|name| !name.is_empty() && !name.starts_with("TRITONBACKEND_"))
        .collect();
    assert_eq!(exported, [""; 0]);
    let needed: Vec<_> = library.libraries.iter().filter(|name| name.contains("triton")).collect();
    assert!(needed.is_empty(), "the core has another name in each build: {needed:?}");
    // The server has the library once, by whatever name models ask for it.
    let link = backends().join("python/libtriton_python.so");
    assert_eq!(link.canonicalize().unwrap(), built().canonicalize().unwrap());
}
