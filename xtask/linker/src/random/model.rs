//! A program: libraries that need each other, and the operations on them.

/// The program that is drawn, rendered, run and shrunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The first is `main.so`, which the driver opens and whose `test` does the operations.
    pub libraries: Vec<Library>,
    /// Whether `main.so` is opened with RTLD_GLOBAL.
    pub global: bool,
    /// The operations of each call of `test`.
    pub steps: Vec<Vec<Act>>,
}

/// Identifies a library; the number stays the same while the program is shrunk. [`MAIN`] is `main.so`.
pub(super) type Id = usize;

/// The library whose `test` the driver calls.
pub(super) const MAIN: Id = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    pub id: Id,
    /// The folder below that of `main.so`; empty for that folder.
    pub folder: &'static str,
    /// DT_NEEDED, in order.
    pub needs: Vec<Id>,
    /// Whether it also needs a library that does not exist.
    pub needs_absent: bool,
    pub definitions: Vec<Definition>,
    pub references: Vec<Reference>,
    /// Their priorities; 0 for a function without one.
    pub constructors: Vec<u32>,
    pub destructors: Vec<u32>,
    /// Whether its constructor prints the targets of its references.
    pub shows_early: bool,
    /// The library that its constructor opens.
    pub opens: Option<(Id, Mode, Closes)>,
    pub exit_handler: bool,
    /// Whether it refers, through the PLT, to a function that no library defines. Nothing calls the function.
    pub misses: bool,
    pub link: Link,
}

/// The linkers other than bfd; some libraries are linked with them.
pub(super) const LINKERS: [&str; 3] = ["gold", "lld", "mold"];

/// How a library is compiled and linked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// `bfd` if empty.
    pub linker: &'static str,
    pub hash: &'static str,
    /// Options that do not change the meaning of the program.
    pub options: Vec<&'static str>,
    pub symbolic: Option<&'static str>,
    /// DF_1_NOW.
    pub now: bool,
    /// DF_1_NODELETE.
    pub stays: bool,
    pub search: Search,
    /// Its definitions have versions.
    pub versioned: bool,
}

/// How a library gives the place of its needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Search {
    #[default]
    Runpath,
    Rpath,
    Nothing,
}

/// A name that libraries define and refer to. It stands for the same kind of thing in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Function(usize),
    Data(usize),
    Unique(usize),
    Thread(usize),
}

impl std::fmt::Display for Name {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Function(number) => write!(formatter, "f{number}"),
            Name::Data(number) => write!(formatter, "d{number}"),
            Name::Unique(number) => write!(formatter, "u{number}"),
            Name::Thread(number) => write!(formatter, "t{number}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub name: Name,
    /// A function that a resolver chooses.
    pub indirect: bool,
    /// Data without an image in the file.
    pub zero: bool,
    /// Data of large alignment.
    pub aligned: bool,
    pub weak: bool,
    pub visibility: Visibility,
    pub version: Versions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    Default,
    Protected,
    Hidden,
}

/// The versions of a definition, in a library with versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// None: it has the library's base version.
    Base,
    /// `@V1`. References without a version do not bind to it.
    Old,
    /// `@@V2`.
    New,
    /// Both, as two definitions.
    Both,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub name: Name,
    pub how: How,
    /// It may stay undefined.
    pub weak: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// From code: a call, or a value by its address in the GOT.
    Direct,
    /// From a word of initialised data.
    Word,
    /// To the definition with the version `V1`.
    Old,
    /// Thread-local, with the model initial-exec.
    InitialExec,
    /// `dlsym(RTLD_NEXT)` from the library.
    Next,
    /// `dlsym(RTLD_DEFAULT)` from the library.
    Default,
}

/// The second argument of `dlopen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    pub lazy: bool,
    /// Names of the other flags without `RTLD_`.
    pub flags: Vec<&'static str>,
}

/// When a library closes the library that its constructor has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closes {
    Never,
    InDestructor,
    AtOnce,
}

/// An operation and the thread that does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Act {
    pub operation: Operation,
    pub thread: Thread,
}

/// The thread that does an operation while the others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// The thread that calls `test`.
    First,
    New,
    /// A thread that existed before the first operation.
    Old,
}

/// The operations of `test`. Handles have numbers. An operation on a handle that is not open does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Open {
        handle: usize,
        library: Id,
        mode: Mode,
        by_name: bool,
    },
    /// `dlopen(NULL)`.
    OpenProgram {
        handle: usize,
    },
    Close {
        handle: usize,
    },
    /// Calls the `show` of every library that the handle finds.
    Show {
        handle: usize,
    },
    /// The same in a forked child.
    Fork {
        handle: usize,
    },
    /// The results of `dlinfo` and the link map for a handle.
    Map {
        handle: usize,
    },
    /// `dl_iterate_phdr`.
    List,
    /// `dlsym` or `dlvsym`.
    Look {
        place: LookupFrom,
        name: Name,
        version: Option<&'static str>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupFrom {
    Handle(usize),
    Default,
    Next,
}

impl Program {
    pub(super) fn library(&self, id: Id) -> Option<&Library> {
        self.libraries.iter().find(|library| library.id == id)
    }

    /// The library and all libraries that it needs, directly or indirectly, breadth first.
    pub(super) fn closure(&self, id: Id) -> Vec<&Library> {
        let mut found: Vec<&Library> = self.library(id).into_iter().collect();
        let mut next = 0;
        while let Some(library) = found.get(next) {
            for need in library.needs.iter().filter_map(|&need| self.library(need)) {
                if !found.iter().any(|known| known.id == need.id) {
                    found.push(need);
                }
            }
            next += 1;
        }
        found
    }

    pub(super) fn operations(&self) -> usize {
        self.steps.iter().map(Vec::len).sum()
    }
}

impl Library {
    /// The name of its file.
    pub(super) fn file(&self) -> String {
        format!("{}.so", self.stem())
    }

    /// The path from the folder of `main.so`.
    pub(super) fn path(&self) -> String {
        match self.folder {
            "" => self.file(),
            folder => format!("{folder}/{}", self.file()),
        }
    }

    pub(super) fn stem(&self) -> String {
        match self.id {
            MAIN => "main".into(),
            id => format!("l{id}"),
        }
    }

    pub(super) fn definition(&self, name: Name) -> Option<&Definition> {
        self.definitions.iter().find(|definition| definition.name == name)
    }

    /// The versions of a definition; hidden definitions have none.
    pub(super) fn versions(&self, definition: &Definition) -> Versions {
        let plain = definition.visibility != Visibility::Default
            || definition.indirect
            || matches!(definition.name, Name::Unique(_))
            || !self.link.versioned;
        if plain { Versions::Base } else { definition.version }
    }

    /// Whether other libraries find its definition of `name` without asking for a version.
    pub(super) fn offers(&self, name: Name) -> bool {
        self.definition(name).is_some_and(|definition| {
            definition.visibility != Visibility::Hidden
                && self.versions(definition) != Versions::Old
        })
    }

    /// Whether it defines `name@V1`.
    pub(super) fn offers_old(&self, name: Name) -> bool {
        self.definition(name).is_some_and(|definition| {
            matches!(self.versions(definition), Versions::Old | Versions::Both)
        })
    }
}

impl std::fmt::Display for Program {
    /// A line for each library and each operation, without default properties.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let usual = [": false", ": []", ": None", ": \"\"", ": Runpath", ": \"gnu\"", ": 0"];
        for library in &self.libraries {
            let text = format!("{library:?}");
            let kept =
                text.split(", ").filter(|field| !usual.iter().any(|end| field.ends_with(end)));
            writeln!(formatter, "  {}", kept.collect::<Vec<_>>().join(", "))?;
        }
        if self.global {
            writeln!(formatter, "  main.so is global")?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            for operation in step {
                writeln!(formatter, "  step {number}: {operation:?}")?;
            }
        }
        Ok(())
    }
}
