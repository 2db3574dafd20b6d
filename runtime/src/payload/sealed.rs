//! A sealed application as a payload starts from it.

use super::table;
use crate::sealed::{Application, ROOT};
use std::ffi::c_int;

/// Calls `action` with the view of an application. `entry`: a command runs what it was sealed for.
pub(crate) fn with_view<T>(
    application: &Application,
    entry: bool,
    action: impl FnOnce(&table::Sealed) -> T,
) -> T {
    let (file, record) = (application.file(), application.record());
    let text = |bytes: &[u8]| table::Text { data: bytes.as_ptr(), len: bytes.len() };
    let paths: Vec<String> = record.paths.iter().map(|path| format!("{ROOT}/{path}")).collect();
    let paths: Vec<_> = paths.iter().map(|path| text(path.as_bytes())).collect();
    let module = |((name, range), is_package): &(crate::sealed::Part, bool)| table::FrozenModule {
        name: text(name.as_bytes()),
        is_package: c_int::from(*is_package),
        code: text(&file[range.clone()]),
    };
    let frozen: Vec<_> = record.frozen.iter().map(module).collect();
    action(&table::Sealed {
        file: text(file),
        boot: record.boot.start,
        boot_length: record.boot.len(),
        root: text(ROOT.as_bytes()),
        paths: paths.as_ptr(),
        path_count: paths.len(),
        frozen: frozen.as_ptr(),
        frozen_count: frozen.len(),
        entry: c_int::from(entry),
    })
}
