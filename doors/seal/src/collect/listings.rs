//! Listings of the sealed directories: what each holds, and which modules an import finds in it.

use crate::member::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// A member and its place in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat<'a> {
    pub(crate) path: &'a str,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Offset and length.
type Span = (u64, u64);

/// A module: whether it is a package, its file's name, and the place of its code, which is 0 for an extension module.
type Row = (bool, String, u64, u64);

/// A directory of the sealed file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// `None` for a directory.
    pub(crate) files: BTreeMap<String, Option<Span>>,
    /// The modules that an import finds here, by the last parts of their names.
    pub(crate) modules: BTreeMap<String, Row>,
    /// The code of modules, by the names of their sources.
    codes: BTreeMap<String, Span>,
    /// The shared libraries among the files.
    libraries: BTreeSet<String>,
}

/// The directories of the members, by their paths. The root's is empty.
pub(crate) fn of<'a>(
    seats: impl IntoIterator<Item = Seat<'a>>,
    suffixes: &[String],
) -> BTreeMap<String, Listing> {
    let mut all = BTreeMap::from([(String::new(), Listing::default())]);
    for seat in seats {
        if seat.kind == Kind::Record {
            continue;
        }
        let (directory, name) = split(seat.path);
        note(&mut all, directory);
        let listing = all.entry(directory.to_owned()).or_default();
        let place = (seat.offset, seat.length);
        if seat.kind == Kind::Code {
            listing.codes.insert(name.to_owned(), place);
            continue;
        }
        listing.files.insert(name.to_owned(), Some(place));
        if seat.kind == Kind::Library {
            listing.libraries.insert(name.to_owned());
        }
    }
    let modules: Vec<_> = all.keys().map(|path| modules(&all, path, suffixes)).collect();
    for (listing, modules) in all.values_mut().zip(modules) {
        listing.modules = modules;
    }
    all
}

/// Makes a directory known to those above it.
fn note(all: &mut BTreeMap<String, Listing>, directory: &str) {
    let mut below = directory;
    while !below.is_empty() {
        let (above, name) = split(below);
        let listing = all.entry(above.to_owned()).or_default();
        if listing.files.insert(name.to_owned(), None).is_some() {
            return;
        }
        below = above;
    }
}

/// The directory of a path, and its last part.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The modules of a directory, in the order of importlib's FileFinder: a package, then extension modules, then code.
fn modules(
    all: &BTreeMap<String, Listing>,
    path: &str,
    suffixes: &[String],
) -> BTreeMap<String, Row> {
    let mut modules = BTreeMap::new();
    let listing = &all[path];
    for (name, _) in listing.files.iter().filter(|(name, file)| file.is_none() && is_tail(name)) {
        let below = match path {
            "" => name.clone(),
            path => format!("{path}/{name}"),
        };
        if let Some((file, offset, length)) = find(&all[&below], "__init__", suffixes) {
            modules.insert(name.clone(), (true, format!("{name}/{file}"), offset, length));
        }
    }
    let stems = |names: &mut dyn Iterator<Item = &String>, ending: &str| -> Vec<String> {
        names.filter_map(|name| name.strip_suffix(ending)).map(str::to_owned).collect()
    };
    let mut tails = BTreeSet::new();
    for suffix in suffixes {
        tails.extend(stems(&mut listing.libraries.iter(), suffix));
    }
    for suffix in [".py", ".pyc"] {
        tails.extend(stems(&mut listing.codes.keys(), suffix));
    }
    for tail in tails.into_iter().filter(|tail| is_tail(tail)) {
        if modules.contains_key(&tail) {
            continue;
        }
        if let Some((file, offset, length)) = find(listing, &tail, suffixes) {
            modules.insert(tail, (false, file, offset, length));
        }
    }
    modules
}

/// The first file that makes a module of the name: its name, and the place of its code.
fn find(listing: &Listing, tail: &str, suffixes: &[String]) -> Option<(String, u64, u64)> {
    let libraries = suffixes.iter().map(|suffix| format!("{tail}{suffix}"));
    let mut libraries = libraries.filter(|name| listing.libraries.contains(name));
    if let Some(name) = libraries.next() {
        return Some((name, 0, 0));
    }
    [".py", ".pyc"].into_iter().find_map(|suffix| {
        let name = format!("{tail}{suffix}");
        let (offset, length) = *listing.codes.get(&name)?;
        Some((name, offset, length))
    })
}

/// Whether it can be the last part of a module's name.
fn is_tail(name: &str) -> bool {
    !name.is_empty() && !name.contains('.')
}

/// Looks for a module, as an import does. The error is the name up to the part that is missing.
pub(crate) fn look_for<'a>(
    all: &BTreeMap<String, Listing>,
    paths: &[String],
    module: &'a str,
) -> Result<(), &'a str> {
    let mut places = paths.to_vec();
    let mut end = 0;
    for part in module.split('.') {
        end += part.len();
        let is_last = end == module.len();
        let listings = places.iter().filter_map(|place| Some((place, all.get(place)?)));
        let found = listings.clone().find_map(|(place, listing)| {
            let (is_package, ..) = listing.modules.get(part)?;
            Some((*is_package, format!("{place}/{part}")))
        });
        places = match found {
            Some(_) if is_last => return Ok(()),
            Some((true, below)) => vec![below],
            // Nothing is below a module.
            Some((false, _)) => Vec::new(),
            None => {
                let is_portion = |listing: &Listing| listing.files.get(part) == Some(&None);
                let portions: Vec<_> = listings
                    .filter(|(_, listing)| is_portion(listing))
                    .map(|(place, _)| format!("{place}/{part}"))
                    .collect();
                // A namespace has no code.
                if portions.is_empty() || is_last {
                    return Err(&module[..end]);
                }
                portions
            }
        };
        end += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listings(members: &[(&str, Kind)]) -> BTreeMap<String, Listing> {
        let seat = |(index, (path, kind)): (usize, &(&'static str, Kind))| Seat {
            path,
            kind: *kind,
            offset: 16 * (index as u64 + 1),
            length: 7,
        };
        let members: Vec<(&'static str, Kind)> = members
            .iter()
            .map(|(path, kind)| (&*String::leak((*path).to_owned()), *kind))
            .collect();
        let suffixes = [".cpython-312-x86_64-linux-gnu.so", ".abi3.so", ".so"].map(str::to_owned);
        of(members.iter().enumerate().map(seat), &suffixes)
    }

    #[test]
    fn modules_have_the_precedence_of_file_finder() {
        use Kind::{Code, Data, Library, Source};
        let all = listings(&[
            ("s/both/__init__.py", Code),
            ("s/both/__init__.py", Source),
            ("s/both.py", Code),
            ("s/fast.so", Library),
            ("s/fast.abi3.so", Library),
            ("s/fast.py", Code),
            ("s/space/inner.py", Code),
            ("s/space.py", Code),
            ("s/native/__init__.abi3.so", Library),
            ("s/old.pyc", Code),
            ("s/bare/readme.txt", Data),
            ("s/libz.so.1", Library),
            ("s/note.v1.py", Code),
        ]);
        let found = &all["s"].modules;
        let row =
            |is_package, file: &str, offset, length| (is_package, file.to_owned(), offset, length);
        let expected = [
            ("both", row(true, "both/__init__.py", 16, 7)),
            ("fast", row(false, "fast.abi3.so", 0, 0)),
            ("native", row(true, "native/__init__.abi3.so", 0, 0)),
            ("old", row(false, "old.pyc", 160, 7)),
            ("space", row(false, "space.py", 128, 7)),
        ];
        let found: Vec<_> = found.iter().map(|(name, row)| (name.as_str(), row.clone())).collect();
        assert_eq!(found, expected);
        // A source that is left out is a module and not a file.
        assert_eq!(all["s/both"].files["__init__.py"], Some((32, 7)));
        assert!(!all["s"].files.contains_key("both.py"));
        assert_eq!(all["s"].files["bare"], None);
        assert_eq!(all[""].files["s"], None);
    }

    #[test]
    fn a_module_is_looked_for_along_the_search_path() {
        let all = listings(&[
            ("one/space/a.py", Kind::Code),
            ("two/deep/space/b.py", Kind::Code),
            ("two/deep/shop/__init__.py", Kind::Code),
            ("two/deep/shop/main.py", Kind::Code),
        ]);
        let paths = ["one", "two/deep"].map(str::to_owned);
        for module in ["space.a", "space.b", "shop", "shop.main"] {
            assert_eq!(look_for(&all, &paths, module), Ok(()), "{module}");
        }
        for (module, missing) in [
            ("space", "space"),
            ("space.c", "space.c"),
            ("shop.main.x", "shop.main.x"),
            ("shop.x.y", "shop.x"),
            ("none.x", "none"),
        ] {
            assert_eq!(look_for(&all, &paths, module), Err(missing), "{module}");
        }
    }
}
