//! The bytes of each installed package, by the list of its files (the recorded-projects specification of PyPA, RECORD).

use std::collections::{BTreeMap, BTreeSet};

use super::description::Distribution;
use super::manifest::ManifestEntry;
use super::open::Sealed;
use crate::member::Kind;

impl Sealed {
    /// How many bytes of the file each distribution has. A distribution whose metadata lists no files is absent.
    pub(super) fn sizes(&self) -> BTreeMap<&str, u64> {
        let mut lengths: BTreeMap<&str, u64> = BTreeMap::new();
        for member in &self.manifest.members {
            *lengths.entry(&member.path).or_default() += member.length;
        }
        let listed = |distribution: &Distribution| self.files_of(distribution);
        let size = |files: BTreeSet<String>| {
            files.iter().filter_map(|file| lengths.get(file.as_str())).sum()
        };
        let distributions = self.manifest.distributions.iter();
        distributions.filter_map(|one| Some((one.name.as_str(), size(listed(one)?)))).collect()
    }

    /// The paths of a distribution's files.
    fn files_of(&self, distribution: &Distribution) -> Option<BTreeSet<String>> {
        let (record, site) = self.manifest.members.iter().find_map(|member| {
            let site = site_of(member, distribution)?;
            Some((member, site))
        })?;
        let bytes = self.part().read(record.offset, record.length).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.lines().filter_map(|line| below(site, first_field(line)?)).collect())
    }
}

/// The folder of packages, if a member is the list of a distribution's files.
fn site_of<'m>(member: &'m ManifestEntry, distribution: &Distribution) -> Option<&'m str> {
    if member.kind != Kind::Data {
        return None;
    }
    let folder = member.path.strip_suffix(".dist-info/RECORD")?;
    let (site, name) = folder.rsplit_once('/').unwrap_or(("", folder));
    let (name, version) = name.rsplit_once('-')?;
    let same =
        normalized(name) == normalized(&distribution.name) && version == distribution.version;
    same.then_some(site)
}

/// A name as indexes write it (PEP 503).
pub(super) fn normalized(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// The first field of a line of comma-separated values.
fn first_field(line: &str) -> Option<String> {
    match line.strip_prefix('"') {
        None => line.split(',').next().map(str::to_owned),
        Some(quoted) => {
            // A quote in a name is doubled.
            let end = quoted.replace("\"\"", "\0\0").find('"')?;
            Some(quoted[..end].replace("\"\"", "\""))
        }
    }
}

/// The path below the root of a path that begins in a folder.
fn below(folder: &str, path: String) -> Option<String> {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    #[test]
    fn a_package_has_the_bytes_of_its_listed_files() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = Sealed::open(&trial::sealed(directory.path())).unwrap();
        let belongs = |member: &&ManifestEntry| {
            member.path.contains("numpy") || member.path == "lib/libtrial.so"
        };
        let expected =
            sealed.manifest.members.iter().filter(belongs).map(|member| member.length).sum();
        // The other one has no list.
        assert_eq!(sealed.sizes(), BTreeMap::from([("Numpy", expected)]));
    }

    #[test]
    fn fields_and_paths_are_read_as_the_specification_has_them() {
        assert_eq!(first_field("a b.py,sha256=x,3").unwrap(), "a b.py");
        assert_eq!(first_field("\"a,\"\"b\"\".py\",,").unwrap(), "a,\"b\".py");
        assert_eq!(first_field("\"unfinished"), None);
        assert_eq!(below("lib/site", "../../bin/x".into()).unwrap(), "bin/x");
        assert_eq!(below("lib", "../../bin/x".into()), None);
        assert_eq!(normalized("Foo_bar.-baz"), "foo-bar-baz");
    }
}
