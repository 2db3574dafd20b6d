//! Files for tests: a program with a place for the header, a library, and a sealed file of both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Description, Distribution, Layout, Placed, SystemLibrary, write};
use crate::member::{Bytes, Kind, Member};

/// A program that can be sealed.
pub(super) const SOURCE: &str = r#"
__attribute__((used)) static const unsigned char place[128] = "hydrozoa sealed application v1";
int main(void) { return 0; }
"#;

/// The number that the library's local function returns.
pub(super) const NUMBER: u32 = 0x1234_5678;

const LIBRARY: &str = r#"
#include <stdio.h>
__attribute__((noinline)) static int hidden(void) { return 0x12345678; }
int shown(void) { puts("shown"); return hidden(); }
"#;

/// Compiles a source. `None` if the compiler refuses it.
pub(super) fn compiled(
    directory: &Path,
    name: &str,
    source: &str,
    arguments: &[&str],
) -> Option<PathBuf> {
    let path = directory.join(name);
    let code = directory.join(format!("{name}.c"));
    fs::write(&code, source).unwrap();
    let mut gcc = Command::new("gcc");
    let status = gcc.arg("-o").arg(&path).arg(&code).args(arguments).stderr(Stdio::null()).status();
    status.expect("the tests need gcc").success().then_some(path)
}

pub(super) fn base(directory: &Path) -> PathBuf {
    compiled(directory, "base", SOURCE, &["-Wl,--build-id=sha1"]).unwrap()
}

pub(super) fn library(directory: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let arguments = [&["-shared", "-fPIC", "-O1"], arguments].concat();
    compiled(directory, name, LIBRARY, &arguments).unwrap()
}

pub(super) const RECORD: &str = "format\t1\nminor\t12\npath\tlib\nentry\tscript\tmain.py\ncopies\t4\n\
    allow\tcerts\nallow\t/data\nend\n";

pub(super) fn bytes(member: &Member) -> Vec<u8> {
    match &member.bytes {
        Bytes::File(path) => fs::read(path).unwrap(),
        Bytes::Memory(bytes) => bytes.clone(),
    }
}

/// Members in places behind a base, in this order.
pub(super) fn placed(base: &Path, members: Vec<Member>) -> Vec<Placed> {
    let mut layout = Layout::new(base).unwrap();
    let place = |member: Member| {
        let length = bytes(&member).len() as u64;
        let offset = layout.place(member.kind, length);
        Placed { member, offset, length }
    };
    members.into_iter().map(place).collect()
}

pub(super) fn member(path: &str, kind: Kind, text: &str) -> Member {
    Member { path: path.into(), kind, bytes: Bytes::Memory(text.into()) }
}

/// A library, a module, and the files of a distribution.
pub(super) fn members(directory: &Path) -> Vec<Member> {
    let record = "numpy/core.py,,\nnumpy-2.0.dist-info/RECORD,,\n\"../../libtrial.so\",,\n";
    let library = Bytes::File(library(directory, "libtrial.so", &[]));
    vec![
        Member { path: "lib/libtrial.so".into(), kind: Kind::Library, bytes: library },
        member("lib/python/site-packages/numpy/core.py", Kind::Code, "marshalled code"),
        member("lib/python/site-packages/numpy/core.py", Kind::Source, "import this\n"),
        member("lib/python/site-packages/numpy-2.0.dist-info/RECORD", Kind::Data, record),
        member("lib/python/empty", Kind::Data, ""),
        member("boot", Kind::Record, "directories"),
    ]
}

pub(super) fn description() -> Description {
    let distribution = |name: &str, version: &str, license: &str| Distribution {
        name: name.into(),
        version: version.into(),
        license: license.into(),
    };
    Description {
        created_by: "hydrozoa 0.1.0".into(),
        python: "3.12.8".into(),
        distributions: vec![
            distribution("Numpy", "2.0", "BSD-3-Clause AND MIT"),
            distribution("other_one", "1", "as you like it"),
        ],
        system: vec![SystemLibrary { soname: "libtrial.so".into(), file: "libtrial.so.1".into() }],
        left_out: vec!["lib/python3.12/test".into()],
    }
}

/// A sealed file.
pub(super) fn sealed(directory: &Path) -> PathBuf {
    sealed_from(directory, &base(directory), true)
}

/// A sealed file of another base.
pub(super) fn sealed_from(directory: &Path, base: &Path, symbols: bool) -> PathBuf {
    let members = placed(base, members(directory));
    let path = directory.join("app");
    write(&path, base, &members, RECORD.as_bytes(), &description(), symbols).unwrap();
    path
}
