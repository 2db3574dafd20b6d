//! Draws a program from a seed.
//!
//! It never draws the following, because the two loaders differ there by design (docs/loader.md, "Random programs"):
//!
//! - a call through the PLT of a library that is opened with RTLD_LAZY: glibc binds it at its first call, to the
//!   global symbols of that time; we bind at load time;
//! - initial-exec code that reaches thread-local data of a library loaded before without static TLS: glibc moves the
//!   data there if no thread has used it yet; we place it at load time. So a library with data for such code asks
//!   for static TLS itself (`render`);
//! - a weak undefined reference to thread-local data: its address means nothing.

use super::model::*;
use super::numbers::Numbers;

const FOLDERS: [&str; 3] = ["", "a", "b"];
const HANDLES: usize = 4;

/// Draws the program of this seed.
pub(super) fn program(seed: u64) -> Program {
    let mut numbers = Numbers::new(seed);
    let count = numbers.between(2, 6);
    // Names rarely collide in large programs, so there are few names for many libraries.
    let libraries = (0..=count).map(|id| library(&mut numbers, id, count)).collect();
    let global = numbers.chance(25);
    let steps = (0..numbers.between(2, 4))
        .map(|_| (0..numbers.between(2, 7)).map(|_| act(&mut numbers, count)).collect())
        .collect();
    Program { libraries, global, steps }
}

fn library(numbers: &mut Numbers, id: Id, count: usize) -> Library {
    let mut needs: Vec<Id> = Vec::new();
    let wanted = if id == MAIN { numbers.below(3) } else { numbers.between(0, 3) };
    for _ in 0..wanted {
        // Most needs lead to higher numbers; the others may close a cycle.
        let need = if id < count && numbers.chance(85) {
            numbers.between(id + 1, count)
        } else {
            numbers.between(1, count)
        };
        if need != id && !needs.contains(&need) {
            needs.push(need);
        }
    }
    let mut definitions: Vec<Definition> = Vec::new();
    for _ in 0..numbers.between(0, 4) {
        let definition = definition(numbers);
        if !definitions.iter().any(|known| known.name == definition.name) {
            definitions.push(definition);
        }
    }
    let mut references: Vec<Reference> = Vec::new();
    for _ in 0..numbers.between(1, 6) {
        let reference = reference(numbers);
        if !references
            .iter()
            .any(|known| known.name == reference.name && known.how == reference.how)
        {
            references.push(reference);
        }
    }
    let priorities = |numbers: &mut Numbers| -> Vec<u32> {
        let count = numbers.of(&[0, 1, 1, 1, 2, 3]);
        (0..count).map(|_| numbers.of(&[0, 0, 101, 200, 65535])).collect()
    };
    Library {
        id,
        folder: if id == MAIN || numbers.chance(60) { "" } else { numbers.of(&FOLDERS) },
        needs,
        needs_absent: id != MAIN && numbers.chance(2),
        definitions,
        references,
        constructors: priorities(numbers),
        destructors: priorities(numbers),
        shows_early: numbers.chance(25),
        opens: (id != MAIN && numbers.chance(12)).then(|| {
            let library = numbers.between(1, count);
            (
                library,
                mode(numbers),
                numbers.of(&[Closes::Never, Closes::InDestructor, Closes::AtOnce]),
            )
        }),
        exit_handler: numbers.chance(15),
        misses: id != MAIN && numbers.chance(3),
        link: link(numbers, id),
    }
}

fn name(numbers: &mut Numbers) -> Name {
    match numbers.below(10) {
        0..5 => Name::Function(numbers.below(3)),
        5..7 => Name::Data(numbers.below(2)),
        7 => Name::Unique(0),
        _ => Name::Thread(numbers.below(2)),
    }
}

fn definition(numbers: &mut Numbers) -> Definition {
    let name = name(numbers);
    let visibility = match numbers.below(10) {
        0 => Visibility::Protected,
        1 => Visibility::Hidden,
        _ => Visibility::Default,
    };
    let indirect = matches!(name, Name::Function(_)) && numbers.chance(20);
    Definition {
        name,
        indirect,
        zero: numbers.chance(30),
        aligned: numbers.chance(15),
        weak: numbers.chance(20),
        // The library that defines an indirect or unique function refers to it like any other.
        visibility: if indirect || matches!(name, Name::Unique(_)) {
            Visibility::Default
        } else {
            visibility
        },
        version: numbers.of(&[Versions::Base, Versions::Old, Versions::New, Versions::Both]),
    }
}

fn reference(numbers: &mut Numbers) -> Reference {
    let name = name(numbers);
    let how = match name {
        Name::Function(_) | Name::Data(_) => numbers.of(&[
            How::Direct,
            How::Direct,
            How::Direct,
            How::Word,
            How::Word,
            How::Old,
            How::Next,
            How::Default,
        ]),
        Name::Unique(_) => numbers.of(&[How::Direct, How::Word]),
        Name::Thread(_) => numbers.of(&[How::Direct, How::Direct, How::InitialExec]),
    };
    Reference { name, how, weak: numbers.chance(25) }
}

fn link(numbers: &mut Numbers, id: Id) -> Link {
    let mut options = Vec::new();
    let mut maybe = |numbers: &mut Numbers, percent, option| {
        if numbers.chance(percent) {
            options.push(option);
        }
    };
    let [gold, lld, mold] = LINKERS;
    let linker = numbers.of(&["", "", "", "", "", gold, lld, mold]);
    if linker.is_empty() {
        // glibc requires the version GLIBC_ABI_DT_RELR of a library with DT_RELR; only bfd adds it.
        maybe(numbers, 30, "-Wl,-z,pack-relative-relocs");
        maybe(numbers, 30, "-Wl,-z,noseparate-code");
        maybe(numbers, 10, "-Wl,-z,max-page-size=0x10000");
        maybe(numbers, 10, "-Wl,-z,max-page-size=0x200000");
    }
    maybe(numbers, 15, "-Wl,-z,norelro");
    maybe(numbers, 25, "-mtls-dialect=gnu2");
    maybe(numbers, 20, "-O0");
    let search = match numbers.below(20) {
        0 if id != MAIN => Search::Nothing,
        1..7 => Search::Rpath,
        _ => Search::Runpath,
    };
    Link {
        linker,
        hash: numbers.of(&["gnu", "gnu", "sysv", "both"]),
        options,
        symbolic: match numbers.below(12) {
            0 => Some("-Wl,-Bsymbolic"),
            1 => Some("-Wl,-Bsymbolic-functions"),
            _ => None,
        },
        now: numbers.chance(20),
        stays: id != MAIN && numbers.chance(5),
        search,
        versioned: numbers.chance(35),
    }
}

fn mode(numbers: &mut Numbers) -> Mode {
    let mut flags = Vec::new();
    for (percent, flag) in [(35, "GLOBAL"), (4, "NODELETE"), (8, "NOLOAD"), (8, "DEEPBIND")] {
        if numbers.chance(percent) {
            flags.push(flag);
        }
    }
    Mode { lazy: numbers.chance(30), flags }
}

fn act(numbers: &mut Numbers, count: usize) -> Act {
    let thread = match numbers.below(12) {
        0 => Thread::New,
        1 | 2 => Thread::Old,
        _ => Thread::First,
    };
    Act { operation: operation(numbers, count), thread }
}

fn operation(numbers: &mut Numbers, count: usize) -> Operation {
    let handle = numbers.below(HANDLES);
    match numbers.below(24) {
        0..7 => Operation::Open {
            handle,
            library: numbers.between(1, count),
            mode: mode(numbers),
            by_name: numbers.chance(25),
        },
        7..11 => Operation::Close { handle },
        11..16 => Operation::Show { handle },
        16 => Operation::OpenProgram { handle },
        17 => Operation::Fork { handle },
        18 => Operation::Map { handle },
        19 => Operation::List,
        _ => {
            let place = match numbers.below(6) {
                0 => LookupFrom::Next,
                1 => LookupFrom::Default,
                _ => LookupFrom::Handle(handle),
            };
            Operation::Look {
                place,
                name: match name(numbers) {
                    Name::Thread(_) => Name::Function(0),
                    other => other,
                },
                version: numbers.of(&[None, None, Some("V1"), Some("V2")]),
            }
        }
    }
}
