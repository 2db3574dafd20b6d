//! Builds tests as their Makefiles would, with the compiler of the system.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use xtask_support::parallel;

use super::table::{Directory, Unit};

/// The folders of the sources and of the products.
pub(super) struct Tree {
    pub sources: PathBuf,
    pub products: PathBuf,
}

const PRELUDE: &str = "prelude.h";

/// The results of building the programs of a directory: their paths, or why the build failed.
pub(super) type Built = HashMap<String, Result<PathBuf, String>>;

impl Tree {
    /// The folder in which `directory` is built.
    pub(super) fn directory(&self, directory: &str) -> PathBuf {
        self.products.join(directory)
    }

    /// Writes the headers that replace glibc's `configure` and `libc-symbols.h` in a test.
    fn write_headers(&self) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.products)?;
        std::fs::write(
            self.products.join(PRELUDE),
            "#include <limits.h>\n#include <sys/cdefs.h>\n\
             #define libc_hidden_proto(...)\n#define attribute_hidden\n",
        )?;
        std::fs::write(self.products.join("config.h"), "")?;
        Ok(())
    }

    /// Builds the support library that contains the tests' `main`. It consists of the parts that compile outside of
    /// glibc's own build tree.
    pub(super) fn build_support(&self) -> anyhow::Result<()> {
        self.write_headers()?;
        let from = self.sources.join("support");
        let into = self.directory("support");
        std::fs::create_dir_all(&into)?;
        let mut sources: Vec<PathBuf> = std::fs::read_dir(&from)
            .with_context(|| format!("{}: not a glibc source tree", self.sources.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // Tests and programs of the support library itself.
                !["tst-", "links-dso", "test-", "resolv_", "shell-", "echo-", "true-"]
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
            })
            .collect();
        sources.sort();
        let objects = Mutex::new(Vec::new());
        parallel::each(&sources, |source| {
            let object = into.join(source.file_stem().unwrap_or_default()).with_extension("o");
            let mut command = self.compiler(source, "support");
            command.arg("-fPIC").arg("-c").arg(source).arg("-o").arg(&object);
            // A part that needs glibc's own build fails to compile. These tests do not use such parts.
            if run(&mut command).is_ok() {
                objects.lock().expect("no panic").push(object);
            }
            Ok(())
        })?;
        let archive = into.join("libsupport.a");
        let _ = std::fs::remove_file(&archive);
        run(Command::new("ar").arg("rcs").arg(&archive).args(objects.into_inner()?))
            .map_err(anyhow::Error::msg)
    }

    /// Builds the modules and programs of a directory.
    pub(super) fn build(&self, directory: &Directory) -> anyhow::Result<Built> {
        let into = self.directory(&directory.name);
        std::fs::create_dir_all(&into)?;
        let mut waiting: Vec<&Unit> = directory.modules.iter().collect();
        let mut done: HashSet<&str> = HashSet::new();
        let failures: Mutex<HashMap<String, String>> = Mutex::default();
        while !waiting.is_empty() {
            let (ready, later): (Vec<&Unit>, Vec<&Unit>) = waiting
                .into_iter()
                .partition(|unit| modules_of(unit).all(|needed| done.contains(needed)));
            ensure!(!ready.is_empty(), "{}: modules need each other", directory.name);
            parallel::each(&ready, |unit| {
                if let Err(reason) = self.build_unit(unit, &directory.name, true) {
                    failures.lock().expect("no panic").insert(unit.name.clone(), reason);
                }
                Ok(())
            })?;
            done.extend(ready.iter().map(|unit| &*unit.name));
            waiting = later;
        }
        let failures = failures.into_inner()?;
        let built = Mutex::new(Built::new());
        parallel::each(&directory.programs, |unit| {
            let result = self.build_unit(unit, &directory.name, false).map_err(|reason| {
                // The first cause is a module whose build failed.
                modules_of(unit).find_map(|needed| failures.get(needed).cloned()).unwrap_or(reason)
            });
            built.lock().expect("no panic").insert(unit.name.clone(), result);
            Ok(())
        })?;
        Ok(built.into_inner()?)
    }

    fn build_unit(&self, unit: &Unit, directory: &str, module: bool) -> Result<PathBuf, String> {
        let from = self.sources.join(directory);
        let into = self.directory(directory);
        let source = from.join(&unit.source);
        if !source.is_file() {
            return Err(format!("{directory}/{} is not in the source tree", unit.source));
        }
        let product =
            into.join(if module { format!("{}.so", unit.name) } else { unit.name.clone() });
        let mut command = self.compiler(&source, directory);
        let place = |flag: &String| flag.replace('@', &into.display().to_string());
        command.args(unit.compile.iter().map(place));
        if module {
            command.args(["-fPIC", "-shared"]);
        } else if unit.no_pie {
            command.args(["-fno-pie", "-no-pie"]);
        }
        command.arg(&source).arg("-o").arg(&product);
        // glibc's build asks for the old tags, so that a search path also serves dependencies.
        command.arg("-Wl,--disable-new-dtags").args(unit.link.iter().map(place));
        command.arg(format!("-Wl,-rpath-link={}", into.display()));
        for needed in &unit.needs {
            match needed.strip_prefix('-') {
                Some("lsupport") => {}
                Some(_) => drop(command.arg(needed)),
                // By path: without DT_SONAME, DT_NEEDED contains the path.
                None => drop(command.arg(into.join(format!("{needed}.so")))),
            }
        }
        if !module || unit.needs.iter().any(|needed| needed == "-lsupport") {
            command.arg(self.directory("support").join("libsupport.a"));
        }
        run(&mut command).map(|()| product)
    }

    fn compiler(&self, source: &Path, directory: &str) -> Command {
        let cxx = source.extension().is_some_and(|extension| extension == "cc");
        let mut command = Command::new(if cxx { "g++" } else { "gcc" });
        command.args(["-O2", "-g", "-w", "-D_GNU_SOURCE", "-DMODULE_NAME=testsuite", "-D_ISOMAC"]);
        command.args(["-DTIMEOUTFACTOR=1", "-DHAVE_ASM_UNIQUE_OBJECT=1"]);
        command.arg(if cxx { "-std=gnu++11" } else { "-std=gnu11" });
        for (name, value) in [
            ("SRCDIR_PATH", self.sources.display().to_string()),
            ("OBJDIR_PATH", self.products.display().to_string()),
            ("OBJDIR_ELF_LDSO_PATH", "/lib64/ld-linux-x86-64.so.2".into()),
            ("INSTDIR_PATH", String::new()),
            ("LIBDIR_PATH", "/usr/lib".into()),
            ("SLIBDIR_PATH", "/lib".into()),
            ("BINDIR_PATH", "/usr/bin".into()),
            ("SBINDIR_PATH", "/usr/sbin".into()),
            ("ROOTSBINDIR_PATH", "/sbin".into()),
            ("COMPLOCALEDIR_PATH", "/usr/lib/locale".into()),
        ] {
            command.arg(format!("-D{name}=\"{value}\""));
        }
        command.arg("-include").arg(self.products.join(PRELUDE));
        // Only for headers that the system lacks: the other headers there are glibc's internal ones. The machine's
        // come before the generic ones, as in glibc's list of system dependencies.
        for headers in [
            directory,
            "",
            "include",
            "sysdeps/x86_64",
            "sysdeps/x86",
            "sysdeps/x86/include",
            "sysdeps/unix/sysv/linux/x86_64",
            "sysdeps/unix/sysv/linux",
            "sysdeps/x86_64/nptl",
            "sysdeps/x86/nptl",
            "sysdeps/nptl",
            "sysdeps/generic",
        ] {
            command.arg("-idirafter").arg(self.sources.join(headers));
        }
        command.arg("-idirafter").arg(&self.products);
        command.current_dir(self.sources.join(directory));
        command
    }
}

fn modules_of(unit: &Unit) -> impl Iterator<Item = &str> {
    unit.needs.iter().map(|needed| &**needed).filter(|needed| !needed.starts_with('-'))
}

/// Runs a tool. The error is the first line that contains "error" or "undefined", else the first line.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("error") || line.contains("undefined"));
    Err(line.or(text.lines().next()).unwrap_or("it failed without a message").to_owned())
}
