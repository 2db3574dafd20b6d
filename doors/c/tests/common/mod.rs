//! The library as `cargo xtask install` installs it, and programs of the system's compilers against it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// How programs are compiled. The headers must give no warning either.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The package's folder.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where this test program may write.
pub fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// The prefix with the installed library. It is installed once for each test program.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch().join("prefix");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["xtask", "install", "--prefix"]).arg(&prefix);
        // The suite names what it has built.
        match env::var_os("HYDROZOA_TEST_BUILT") {
            Some(folder) => cargo.arg("--built").arg(folder),
            None => cargo.arg("--dev"),
        };
        succeed(cargo.current_dir(package().parent().expect("the package lies in the workspace")));
        prefix
    })
}

/// A source file and the language that its name says.
#[derive(Clone, Copy)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    pub fn of(source: &Path) -> Self {
        match source.extension().is_some_and(|extension| extension == "cpp") {
            true => Self::Cpp,
            false => Self::C,
        }
    }

    /// The system's compiler, for the standard that is promised.
    pub fn compiler(self) -> Command {
        let (name, standard) = match self {
            Self::C => ("cc", "-std=c11"),
            Self::Cpp => ("c++", "-std=c++17"),
        };
        let mut command = Command::new(name);
        command.arg(standard).args(WARNINGS);
        command
    }
}

/// The flags of the installed library, from pkg-config.
pub fn flags(options: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(options).arg("hydrozoa").env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let text = text(succeed(&mut command).stdout);
    text.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program of one file, whose path is inside of the package.
pub fn compile(source: &str) -> PathBuf {
    let source = package().join(source);
    let name = source.file_stem().expect("a source has a name");
    let program = scratch().join(name);
    let mut compiler = Language::of(&source).compiler();
    compiler.arg("-g").arg(&source).arg("-o").arg(&program);
    succeed(compiler.args(flags(&["--cflags", "--libs"])).arg("-pthread"));
    program
}

/// Runs a program, which prints what the file of its name with the ending `.out` says.
pub fn prints_what_it_should(source: &str, command: &mut Command) {
    let expected = package().join(source).with_extension("out");
    let expected = std::fs::read_to_string(&expected).expect("the output is written down");
    let output = succeed(command);
    assert_eq!(text(output.stdout), expected, "{source}: {}", text(output.stderr));
}

/// A command for a program of [`compile`].
pub fn command(program: &Path) -> Command {
    with_library(Command::new(program))
}

/// The same under valgrind. An error that it finds, or memory that is lost, is a failure.
pub fn under_valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--num-callers=40", "--leak-check=full"]);
    command.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    // The end of a child that reads stacks would flush the streams of its parent.
    command.arg("--run-libc-freeres=no");
    let suppressions = package().join("tests/valgrind.supp");
    command.arg(format!("--suppressions={}", suppressions.display())).arg(program);
    with_library(command)
}

/// The same if `HYDROZOA_TEST_VALGRIND` is set, which takes a quarter of a minute for each program; else the program by itself.
pub fn examined(program: &Path) -> Command {
    if env::var_os("HYDROZOA_TEST_VALGRIND").is_some() {
        return under_valgrind(program);
    }
    println!("{} runs without valgrind: HYDROZOA_TEST_VALGRIND is not set", program.display());
    command(program)
}

fn with_library(mut command: Command) -> Command {
    command.env("LD_LIBRARY_PATH", prefix().join("lib"));
    command
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{name} cannot be started: {error}; these tests need cc, c++, pkg-config and valgrind (`apt-get install gcc g++ \
             pkg-config valgrind`)"
        )
    });
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("the output is UTF-8")
}
