//! The C library's functions that keep process state, and the definitions that a domain's references bind to instead.
//!
//! [`crate::sys::clibrary`] holds the functions and the state. They replace definitions in the C library alone: a `getopt`
//! that the program brings, or that a library binds to itself, is untouched. The table in [`table`] lists all functions,
//! also those left alone, with the reasons. `docs/c-library.md` is made from it.

mod page;
mod table;

pub(crate) use self::page::page as c_library_page;

use self::table::{Class, TABLE};
use crate::bind::plan::CLibraryNames;
use crate::replica::thunk::Interposition;
use crate::sys::clibrary::{Answer, CLibrary, Context};
use crate::sys::lock::Once;

/// The objects of the C library that keep such state, and libcrypt, which was one of them.
const SONAMES: [&str; 3] = ["libc.so.6", "libm.so.6", "libcrypt.so.1"];

/// The names of all domains' answers.
static NAMES: Once<Vec<&'static str>> = Once::new();

/// The names of the table, and whether each domain has its own state for them, or one at a time uses it.
pub(crate) fn c_library_names() -> Vec<(&'static str, bool)> {
    let rows = TABLE.iter().flat_map(|row| row.names.split(' ').map(|name| (name, row.class)));
    rows.map(|(name, class)| (name, matches!(class, Class::Own | Class::Alone))).collect()
}

/// The C library's names that are interposed, and an interposition for each.
pub(crate) fn answers(library: &CLibrary) -> (CLibraryNames, Vec<Interposition>) {
    let answers = library.answers();
    let names = NAMES.get_or_init(|| answers.iter().map(|answer| answer.name).collect());
    let interpositions = answers.into_iter().map(interposition).collect();
    (CLibraryNames { names, sonames: &SONAMES }, interpositions)
}

fn interposition(Answer { target, context, .. }: Answer) -> Interposition {
    // SAFETY: each function has the signature that the C library's headers give the name, and then the context; the number is
    // that of the signature's arguments in integer registers. Arguments on the stack stay there, since a thunk jumps. A
    // variable has the name's type.
    unsafe {
        match context {
            Context::None => Interposition::function(target),
            Context::Behind(arguments, context) => {
                Interposition::with_context(target, arguments, context)
            }
            Context::Hidden(context) => Interposition::with_hidden_context(target, context),
        }
    }
}
