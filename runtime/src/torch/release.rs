//! The releases of torch: which one an installation has, and what the adapter knows of each.
//!
//! Sizes and offsets are those of the release's own headers on x86-64 with libstdc++'s new ABI. A
//! program compiled against the headers printed them. A new release needs a [`Layout`], and its
//! mangled names in [`super::symbols`].

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::python::{Installation, Search};

/// The release of torch that the interpreters of an installation find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The folder of the package `torch`.
    folder: PathBuf,
    /// `torch.__version__`, e.g. `2.11.0+cu130`, if the package states it.
    version: Option<String>,
    /// Whether it is built for CUDA.
    cuda: bool,
}

impl Release {
    /// The torch that interpreters of a pool of `python` find, or `None` if they find none.
    ///
    /// The installation's python says where the package is. The release is what `version.py` in that folder
    /// states. torch is not imported.
    pub fn of(python: &Installation) -> Option<Release> {
        Release::found(python, Search::Pool(&[]))
    }

    /// The torch that interpreters find which search in this way.
    pub(crate) fn found(python: &Installation, search: Search<'_>) -> Option<Release> {
        Some(Release::at(&python.package("torch", search)?))
    }

    /// The torch in this folder.
    fn at(folder: &Path) -> Release {
        let text = fs::read_to_string(folder.join("version.py")).unwrap_or_default();
        Release {
            folder: folder.to_owned(),
            version: stated(&text, "__version__"),
            cuda: stated(&text, "cuda").is_some(),
        }
    }

    /// The folder of the package `torch`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether [`TorchPolicy::Shared`](super::TorchPolicy::Shared) serves the release.
    pub fn can_be_shared(&self) -> bool {
        self.layout().is_some()
    }

    /// Whether the build has CUDA.
    pub(crate) fn has_cuda(&self) -> bool {
        self.cuda
    }

    /// Whether a process that loads both loads one libtorch.
    pub(super) fn is(&self, other: &Release) -> bool {
        self.version == other.version && is_same_file(&self.library(), &other.library())
    }

    /// libtorch's main library.
    pub(super) fn library(&self) -> PathBuf {
        self.libraries().join("libtorch_cpu.so")
    }

    /// The folder of the libraries that a wheel of torch brings.
    fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }

    /// Whether the library at `path` is the one of that name in this torch.
    pub(super) fn has_library(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| is_same_file(path, &self.libraries().join(name)))
    }

    /// One that no installation has. Its library is an empty file.
    #[cfg(test)]
    pub(super) fn named(version: &str) -> Release {
        let folder = std::env::temp_dir().join(format!("hydrozoa-torch-{}", std::process::id()));
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::write(folder.join("lib/libtorch_cpu.so"), "").unwrap();
        Release { folder, version: Some(version.to_owned()), cuda: false }
    }

    /// What the adapter knows of the release.
    pub(super) fn layout(&self) -> Option<&'static Layout> {
        layout(self.version.as_deref()?)
    }
}

/// Whether both paths lead to one file. Installers link files, also between environments.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

/// The version and the folder.
impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match &self.version {
            Some(version) => write!(formatter, "{version} in {folder}"),
            None => write!(formatter, "of a version that {folder}/version.py does not state"),
        }
    }
}

/// The text that `name` has in the text of `torch/version.py`, if it has one.
fn stated(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        // `tools/generate_torch_version.py` of torch writes some names with an annotation.
        let (before, value) = line.split_once('=')?;
        let value = value.trim();
        let text = value.trim_matches(['\'', '"']);
        (before.split(':').next()?.trim_end() == name && !text.is_empty() && text != value)
            .then(|| text.to_owned())
    })
}

/// The places in libtorch's objects that have no accessor among its exported functions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of `torch::Library`, rounded up. It is only ever constructed in place.
    pub(super) library_size: usize,
    /// `OperatorEntry::schema_`, a `std::optional<AnnotatedSchema>` whose first member is the schema.
    pub(super) entry_schema: usize,
    /// Where that optional keeps its flag.
    pub(super) entry_schema_engaged: usize,
    /// `OperatorEntry::dispatchTable_`, an array of `KernelFunction`.
    pub(super) entry_dispatch_table: usize,
    /// Its length, `c10::num_runtime_entries`.
    pub(super) runtime_entries: usize,
    /// `c10::num_functionality_keys`: the keys up to `EndOfFunctionalityKeys`.
    pub(super) functionality_keys: u16,
    /// `c10::num_backends`: the low bits of a `DispatchKeySet`.
    pub(super) backends: u16,
    /// The functionality keys that exist once per backend, in the order of their runtime keys.
    pub(super) per_backend: [u16; 6],
    /// `DispatchKey::CompositeImplicitAutograd`, the key of catch-all kernels.
    pub(super) composite_implicit: u16,
    /// The index byte of `std::variant<OperatorName, FunctionSchema>`.
    pub(super) name_or_schema_index: usize,
    /// The size of a `c10::FunctionSchema`.
    pub(super) schema_size: usize,
    /// `torch::jit::Operator`: index byte of its variant (1 is `JitOnlyOperator`).
    pub(super) jit_operator_index: usize,
    /// In a `JitOnlyOperator`: index byte of its schema's variant (0 is parsed, 1 is text).
    pub(super) jit_schema_index: usize,
    /// In a `JitOnlyOperator`: its operation (a `std::function`, or the address of a creator).
    pub(super) jit_operation: usize,
    /// In a `JitOnlyOperator`: index byte of the operation's variant (1 is the creator).
    pub(super) jit_operation_index: usize,
    /// `c10::NamedType::name_`, a `std::optional<QualifiedName>`.
    pub(super) type_name: usize,
    /// In a `QualifiedName`: the whole name.
    pub(super) qualified_name: usize,
    /// `torch::autograd::Engine::thread_pool_shared_`.
    pub(super) engine_pool: usize,
    /// Bytes of `c10::AutogradState`.
    pub(super) autograd_state_size: usize,
    /// Bytes of `c10::impl::TorchDispatchModeTLS`.
    pub(super) dispatch_modes_size: usize,
    /// Bytes of `at::impl::PythonTorchFunctionTLS`.
    pub(super) function_modes_size: usize,
    /// Which slots of `PyInterpreterVTable` return through a hidden pointer (bit i for slot i).
    pub(super) interpreter_hidden_results: u64,
    /// Number of slots of `PyInterpreterVTable`, the two destructors included.
    pub(super) interpreter_slots: usize,
}

/// torch 2.11.
static TORCH_2_11: Layout = Layout {
    library_size: 128,
    entry_schema: 64,
    entry_schema_engaged: 64 + 152,
    entry_dispatch_table: 248,
    runtime_entries: 138,
    functionality_keys: 48,
    backends: 16,
    // Dense, Quantized, Sparse, SparseCsr, NestedTensor, AutogradFunctionality.
    per_backend: [1, 5, 8, 9, 10, 22],
    composite_implicit: 152,
    name_or_schema_index: 120,
    schema_size: 120,
    jit_operator_index: 168,
    jit_schema_index: 120,
    jit_operation: 128,
    jit_operation_index: 160,
    type_name: 32,
    qualified_name: 24,
    engine_pool: 0x68,
    autograd_state_size: 32,
    dispatch_modes_size: 96,
    function_modes_size: 32,
    // 2 name, 7 detach, 14 sym_is_contiguous, 24 sym_numel, 26 sym_storage_offset.
    interpreter_hidden_results: 1 << 2 | 1 << 7 | 1 << 14 | 1 << 24 | 1 << 26,
    interpreter_slots: 38,
};

/// The layout of the release with this `torch.__version__`.
pub(super) fn layout(version: &str) -> Option<&'static Layout> {
    let mut numbers = version.split(['.', '+']);
    match (numbers.next()?, numbers.next()?) {
        ("2", "11") => Some(&TORCH_2_11),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_what_torch_s_own_file_states() {
        let file = "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda']\n\
                    __version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n";
        assert_eq!(stated(file, "__version__").as_deref(), Some("2.11.0+cu130"));
        assert_eq!(stated(file, "cuda").as_deref(), Some("13.0"));
        let file = "__version__: str = \"2.12.0\"\ncuda: Optional[str] = None\n";
        assert_eq!(stated(file, "__version__").as_deref(), Some("2.12.0"));
        assert_eq!(stated(file, "cuda"), None);
        for text in ["", "debug = False\n", "__version__ = ''\n", "__version__x = '1'\n"] {
            assert_eq!(stated(text, "__version__"), None, "{text}");
        }
    }

    #[test]
    fn a_release_is_known_by_major_and_minor_number() {
        for version in ["2.11.0", "2.11.0+cu130", "2.11.1+cpu", "2.11.0a0+git70d99e9"] {
            assert_eq!(layout(version), Some(&TORCH_2_11), "{version}");
        }
        for version in ["2.1.1", "2.110.0", "3.11", "2", ""] {
            assert_eq!(layout(version), None, "{version}");
        }
    }
}
