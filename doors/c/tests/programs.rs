//! Programs in C and C++ against the installed library, by the system's compilers. They need a Python, and no package.

mod common;

use common::{
    Language, command, compile, examined, flags, package, prefix, prints_what_it_should, scratch,
    succeed, under_valgrind,
};
use std::collections::BTreeSet;
use std::fs;

const HEADERS: [&str; 3] = ["hydrozoa.h", "hydrozoa_values.h", "hydrozoa_dlpack.h"];

/// dlpack.h as far as it matters: its guard, and the structure by its own names.
const DLPACK: &str = "#ifndef DLPACK_DLPACK_H_\n#define DLPACK_DLPACK_H_\n#include <stdint.h>\n\
    typedef struct DLTensor { void *data; } DLTensor;\n\
    typedef struct DLManagedTensor { DLTensor dl_tensor; void *manager_ctx; \
    void (*deleter)(struct DLManagedTensor *self); } DLManagedTensor;\n#endif\n";

/// Compiles a file without a program.
fn compiles(language: Language, text: &str) {
    let ending = match language {
        Language::C => "c",
        Language::Cpp => "cpp",
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(format!("source.{ending}"));
    fs::write(folder.path().join("dlpack.h"), DLPACK).unwrap();
    fs::write(&source, text).unwrap();
    succeed(language.compiler().args(flags(&["--cflags"])).arg("-fsyntax-only").arg(source));
}

/// Runs a program of this package under valgrind if that is wanted.
fn examined_prints_what_it_should(source: &str) {
    prints_what_it_should(source, &mut examined(&compile(source)));
}

#[test]
fn each_header_compiles_alone_as_c11_and_as_cpp17() {
    for header in HEADERS {
        let text =
            format!("#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n");
        compiles(Language::C, &text);
        compiles(Language::Cpp, &text);
    }
    compiles(Language::Cpp, "#include <hydrozoa.hpp>\nint main() { return 0; }\n");
}

#[test]
fn dlpacks_own_header_may_come_before_and_behind() {
    for headers in [["dlpack.h", "hydrozoa.h"], ["hydrozoa.h", "dlpack.h"]] {
        let [first, second] = headers;
        let text =
            format!("#include <{first}>\n#include <{second}>\nint main(void) {{ return 0; }}\n")
                .replace("<dlpack.h>", "\"dlpack.h\"");
        compiles(Language::C, &text);
        compiles(Language::Cpp, &text);
    }
    let text = "#include \"dlpack.h\"\n#include <hydrozoa.hpp>\nint main() { return 0; }\n";
    compiles(Language::Cpp, text);
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let bytes = fs::read(prefix().join("lib/libhydrozoa.so")).unwrap();
    let library = goblin::elf::Elf::parse(&bytes).unwrap();
    assert_eq!(library.soname, Some("libhydrozoa.so.0"));
    let exported: BTreeSet<String> = library
        .dynsyms
        .iter()
        .filter(|symbol| !symbol.is_import())
        .filter_map(|symbol| library.dynstrtab.get_at(symbol.st_name).map(str::to_owned))
        .filter(|name| !name.is_empty())
        .collect();
    let header = fs::read_to_string(package().join("include/hydrozoa.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let declared: BTreeSet<String> = code
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("hz_"))
        .map(str::to_owned)
        .collect();
    assert!(declared.len() > 80, "only {} functions were found", declared.len());
    assert_eq!(exported, declared);
}

#[test]
fn the_links_of_the_installed_library_lead_to_the_version() {
    let lib = prefix().join("lib");
    let version = format!("libhydrozoa.so.{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        fs::read_link(lib.join("libhydrozoa.so")).unwrap().to_str(),
        Some("libhydrozoa.so.0")
    );
    assert_eq!(fs::read_link(lib.join("libhydrozoa.so.0")).unwrap().to_str(), Some(&*version));
    assert_eq!(flags(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
}

#[test]
fn every_status_but_that_of_a_defect_is_provoked_from_c() {
    let source = "tests/programs/errors.c";
    prints_what_it_should(source, &mut command(&compile(source)));
    let header = fs::read_to_string(package().join("include/hydrozoa.h")).unwrap();
    let provoked = fs::read_to_string(package().join("tests/programs/errors.out")).unwrap();
    let statuses = header.lines().filter_map(|line| line.trim().split_once(" = "));
    let missing: Vec<&str> = statuses
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("HZ_ERROR_") && !provoked.lines().any(|line| line == *name))
        .collect();
    // `a_panic_ends_at_the_boundary_and_is_an_error` has it.
    assert_eq!(missing, ["HZ_ERROR_PANIC"]);
}

/// A program that calls each function with NULL and 0 for all arguments, with and without a place for an error.
fn calls_with_null() -> String {
    let header = fs::read_to_string(package().join("include/hydrozoa.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join(" ");
    let mut body = String::new();
    for declaration in code.split(';') {
        let Some((before, arguments)) = declaration.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        let arguments = arguments.trim_end_matches([')', ' ']);
        if !name.starts_with("hz_") || name == "hz_release" || arguments == "void" {
            continue;
        }
        let zeros = vec!["0"; arguments.matches(',').count()];
        body += &match arguments.ends_with("struct hz_error **error") {
            true => format!("    REFUSES({name}({}, place));\n", zeros.join(", ")),
            false => format!("    (void){name}({});\n", [&*zeros, &["0"]].concat().join(", ")),
        };
    }
    format!(
        "#include <hydrozoa.h>\n#include <stdio.h>\nstatic int failed;\n\
         static void look(const char *call, hz_status status, hz_error **place) {{\n\
         \x20   int bad = status != HZ_ERROR_INVALID_ARGUMENT;\n\
         \x20   bad = bad || (place != NULL && hz_error_message(*place)[0] == 0);\n\
         \x20   if (bad) {{ printf(\"%s: %d\\n\", call, (int)status); failed = 1; }}\n\
         \x20   if (place != NULL) {{ hz_error_free(*place); }}\n}}\n\
         #define REFUSES(call) look(#call, call, place)\n\
         static void all(hz_error **place) {{\n{body}}}\n\
         int main(void) {{\n    hz_error *error = NULL;\n    all(&error);\n    all(NULL);\n    return failed;\n}}\n"
    )
}

#[test]
fn null_is_an_error_for_every_function_that_can_fail() {
    let text = calls_with_null();
    assert!(
        text.matches("REFUSES(hz_").count() > 60 && text.matches("(void)hz_").count() > 20,
        "{text}"
    );
    let (source, program) = (scratch().join("null.c"), scratch().join("null"));
    fs::write(&source, text).unwrap();
    let mut compiler = Language::C.compiler();
    compiler.arg(&source).arg("-o").arg(&program).args(flags(&["--cflags", "--libs"]));
    succeed(&mut compiler);
    succeed(&mut command(&program));
}

#[test]
fn the_first_program_of_the_manual_computes_a_root() {
    let source = "examples/first.c";
    prints_what_it_should(source, &mut command(&compile(source)));
    let manual = fs::read_to_string(package().join("../../docs/c.md")).unwrap();
    let code = fs::read_to_string(package().join(source)).unwrap();
    assert!(manual.contains(&format!("```c\n{code}```\n")), "docs/c.md has another program");
}

#[test]
fn a_program_in_c_uses_a_package_and_a_movable() {
    let source = "tests/programs/package.c";
    let mut command = command(&compile(source));
    prints_what_it_should(source, command.arg(scratch().join("package.pt")));
}

#[test]
fn messages_of_queues_pass_from_c_through_interpreters() {
    examined_prints_what_it_should("tests/programs/queue.c");
}

#[test]
fn settings_and_operations_have_their_effects_in_cpp() {
    let source = "tests/programs/surface.cpp";
    prints_what_it_should(source, command(&compile(source)).arg(scratch()));
}

#[test]
fn a_crash_in_an_interpreter_is_an_error_and_the_program_goes_on() {
    let source = "tests/programs/crashes.cpp";
    prints_what_it_should(source, &mut command(&compile(source)));
}

#[test]
fn a_program_is_linked_with_the_static_library() {
    let source = package().join("examples/json.c");
    let program = scratch().join("static");
    let mut compiler = Language::C.compiler();
    compiler.arg(&source).arg("-o").arg(&program).args(flags(&["--cflags"]));
    compiler.arg(prefix().join("lib/libhydrozoa.a"));
    let private = flags(&["--libs", "--static"]);
    succeed(compiler.args(private.iter().filter(|flag| *flag != "-lhydrozoa")));
    prints_what_it_should("examples/json.c", &mut std::process::Command::new(program));
}

#[test]
fn json_in_c_is_as_the_example_says() {
    examined_prints_what_it_should("examples/json.c");
}

/// No access to memory that is not the program's, and no handle that is not freed.
#[test]
fn lent_memory_in_c_is_clean_under_valgrind() {
    let source = "examples/memory.c";
    prints_what_it_should(source, &mut under_valgrind(&compile(source)));
}

#[test]
fn a_pool_in_cpp_is_as_the_example_says() {
    examined_prints_what_it_should("examples/pool.cpp");
}

/// valgrind runs one thread at a time, so on a busy machine this takes minutes there.
#[test]
fn threads_in_c_are_as_the_example_says() {
    examined_prints_what_it_should("examples/threads.c");
}

#[test]
fn workers_in_c_are_as_the_example_says() {
    examined_prints_what_it_should("examples/workers.c");
}

#[test]
fn valgrind_finds_a_handle_that_is_not_freed() {
    let source = scratch().join("leak.c");
    let text = "#include <hydrozoa.h>\nint main(void) { return hz_builder_new() == NULL; }\n";
    fs::write(&source, text).unwrap();
    let program = scratch().join("leak");
    let mut compiler = Language::C.compiler();
    compiler.arg(&source).arg("-o").arg(&program).args(flags(&["--cflags", "--libs"]));
    succeed(&mut compiler);
    let output = under_valgrind(&program).output().expect("valgrind can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(99) && said.contains("hz_builder_new"), "{said}");
}

/// Such a program has stubs for functions whose addresses it takes, and a stub has the function's name for all. Debian's `python3` is one.
#[test]
fn a_program_at_a_fixed_address_takes_addresses_of_the_c_library_s_functions() {
    let first = package().join("examples/first.c");
    let text = format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <malloc.h>\n#include <stdlib.h>\n#include {first:?}\n\
         void *volatile taken[5];\n\
         __attribute__((constructor)) static void take(void) {{\n\
             taken[0] = (void *)free; taken[1] = (void *)malloc; taken[2] = (void *)realloc;\n\
             taken[3] = (void *)memalign; taken[4] = (void *)malloc_usable_size;\n\
             if (taken[0] == dlsym(RTLD_NEXT, \"free\")) abort();\n\
         }}\n"
    );
    let (source, program) = (scratch().join("fixed.c"), scratch().join("fixed"));
    fs::write(&source, text).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-std=c11", "-no-pie", "-fno-pie"]).arg(&source).arg("-o").arg(&program);
    succeed(compiler.args(flags(&["--cflags", "--libs"])).args(["-ldl", "-pthread"]));
    let output = succeed(&mut command(&program));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1.414214\n");
}
