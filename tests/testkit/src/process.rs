//! Forked children of a test, and the list of a process's resources.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// Runs `action` in a child for at most `patience` seconds. Returns its result, or how the child ended.
///
/// The child may do anything but return into the test harness.
pub fn in_child(patience: u32, action: impl FnOnce() -> String) -> Result<String, String> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written to the array.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the descriptors were just made, and nothing else owns them.
    let [mut reading, writing] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    // SAFETY: the parent's other threads hold no lock of the loader, since only children use it. glibc's
    // locks are free in the child.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let end = writing.as_raw_fd();
        let say = move |kind: u8, text: &[u8]| {
            // SAFETY: the bytes are valid. Bytes that do not fit are lost.
            unsafe {
                libc::write(end, [kind].as_ptr().cast(), 1);
                libc::write(end, text.as_ptr().cast(), text.len());
            }
        };
        std::panic::set_hook(Box::new(move |info| {
            say(b'!', info.to_string().as_bytes());
            // SAFETY: always.
            unsafe { libc::_exit(1) };
        }));
        // SAFETY: always.
        unsafe { libc::alarm(patience) };
        say(b'=', action().as_bytes());
        // SAFETY: always.
        unsafe { libc::_exit(0) };
    }
    drop(writing);
    let mut said = Vec::new();
    reading.read_to_end(&mut said).unwrap();
    let mut status = 0;
    // SAFETY: the child is ours and has not been waited for.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFSIGNALED(status) {
        return Err(format!("it was ended by signal {}", libc::WTERMSIG(status)));
    }
    match said.split_first() {
        Some((b'=', result)) => Ok(String::from_utf8_lossy(result).into_owned()),
        Some((_, text)) => Err(String::from_utf8_lossy(text).into_owned()),
        None => Err(format!("it ended with status {status:#x}")),
    }
}

/// The things that a load may leave behind: mapped bytes, by file, rights and place in the file, and
/// descriptors, by what they refer to.
#[derive(Debug, PartialEq, Eq)]
pub struct Possessions(BTreeMap<String, usize>);

impl Possessions {
    /// The state of this process. It leaves out the program's own mappings, since a page of them that was
    /// written may stay writable. It also leaves out the expected remains of the files in `directory`: a view of each
    /// known image, the descriptor of a memory file, and everything of the files that `shared` names.
    pub fn now(directory: &Path, shared: &[&str]) -> Possessions {
        let directory = directory.to_str().unwrap();
        let own = std::env::current_exe().unwrap();
        let own = ["[heap]", "[stack]", own.to_str().unwrap()];
        let stays = |name: &str| shared.iter().any(|shared| name.ends_with(shared));
        let is_image = |name: &str| name.starts_with(directory) || name.starts_with("/memfd:");
        let mut state = BTreeMap::new();
        let mut views = HashSet::new();
        for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let name = fields.get(5).copied().unwrap_or("anonymous");
            if own.contains(&name) || stays(name) {
                continue;
            }
            if is_image(name) && fields[1] == "r--s" && views.insert(name.to_owned()) {
                continue;
            }
            let bound = |text| usize::from_str_radix(text, 16).unwrap();
            let (start, end) = fields[0].split_once('-').unwrap();
            // Memory that malloc has reserved becomes writable when malloc uses it.
            let rights = if name == "anonymous" { "" } else { fields[1] };
            let key = format!("{name} {rights} {}", fields[2]);
            *state.entry(key).or_default() += bound(end) - bound(start);
        }
        let mut known = HashSet::new();
        for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
            // The descriptor that lists them is closed again.
            let Ok(name) = std::fs::read_link(entry.unwrap().path()) else { continue };
            let name = name.display().to_string();
            let in_memory = name.starts_with("/memfd:");
            if !(stays(&name) || in_memory && known.insert(name.clone())) {
                *state.entry(format!("descriptor of {name}")).or_default() += 1;
            }
        }
        Possessions(state)
    }

    /// The differences from `before`: additions and removals.
    pub fn since(&self, before: &Possessions) -> Vec<String> {
        let keys: BTreeSet<_> = self.0.keys().chain(before.0.keys()).collect();
        let change =
            |key| (before.0.get(key).copied().unwrap_or(0), self.0.get(key).copied().unwrap_or(0));
        let changes = keys.into_iter().map(|key| (key, change(key)));
        changes
            .filter(|(_, (was, is))| was != is)
            .map(|(key, (was, is))| format!("{key}: {was} -> {is}"))
            .collect()
    }
}
