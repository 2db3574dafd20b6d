//! Arrays and strings of an environment, for threads that do not wait for each other.
//!
//! Readers of the environment take no lock: `getenv`, `tzset`, `execve`, a program that walks `environ`. glibc's
//! writers take a lock that readers do not know, and `setenv` passes the array that readers walk to `realloc`
//! (glibc 2.36, stdlib/setenv.c, `__add_to_environ`). One program with a lock of its own around all of these
//! never notices. Several programs in one process have several such locks.
//!
//! So a [`Table`] frees nothing that a reader may hold. A reader sees:
//!
//! ```text
//!   environ ────────┐
//!   slots:  [ A  B  │ C  D  A  E  0  0  0  0 ]
//!             moved └── live ──┘  └ room ┘ └ always 0
//! ```
//!
//! - A new value of a variable is one store into its slot.
//! - A new variable is one store into the first slot of the room. The slot behind it is null before that.
//! - A removal puts the first entry into the slot of the removed one, and then moves `environ` up by a slot. The
//!   first entry stays in its old slot, too. So a reader in the middle of its walk meets each variable that stays, in
//!   whichever direction it walks: the kernel counts the entries of an `execve` and copies the last one first (Linux,
//!   fs/exec.c, `copy_strings`). A reader may meet one entry twice.
//! - The first of two entries of one name is the variable's value. A removal that would put it behind the second one
//!   takes another array instead.
//! - When the room is used up, the entries go into another array, and `environ` then points there. The same
//!   happens after other code has changed `environ`. The old array stays as it is for at least [`GRACE`], or
//!   until [`MOST`] arrays exist. That takes `MOST * ROOM` new variables, or `MOST` such changes. A reader that
//!   slept for so long in the middle of its walk may miss a variable. It still meets only strings and a null
//!   pointer.
//! - A program may assign an address that it has kept to `environ`. If that is in an old array, the array is the
//!   environment again. Its time as an old one begins anew when another array follows it.
//!
//! A table frees no strings either, as in glibc, since `getenv` hands them out. Equal strings are stored once.
//!
//! Bound: an array has less than `4 * max(variables, ROOM) + 4` words. All arrays together, those that became too
//! small included, take at most as much as `2 * MOST` of the largest. In practice there are as many as `GRACE`
//! needs: a few if the environment changes less than a thousand times a second. Strings take the sum of all
//! distinct `NAME=value`, as in glibc.
//!
//! Other code writes to the process's environment too: glibc's functions, which the program itself or system
//! libraries call, and assignments to `environ`. The next call here compares `environ` with the address that it
//! stored last, and takes over other code's changes. glibc stores values and removals into the array that it finds. That
//! may be one of these, and it remains valid. glibc puts a new variable into a block of its own, copied from `environ`.
//! The block that it passes to `realloc` is the one that it made last (`last_environ`), never one of these. If such
//! a call runs at the same moment as one of these, one of the two changes may get lost. No other thread may walk
//! glibc's block during glibc's next call: the caller must ensure that, as without this loader.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// The least number of variables that can be added before an array is used up.
const ROOM: usize = 64;
/// How long an array that is no longer the environment stays as it is.
const GRACE: Duration = Duration::from_millis(100);
/// Once so many arrays exist, the oldest is used again even within [`GRACE`].
const MOST: usize = 1024;

type Slot = AtomicPtr<c_char>;

/// malloc is out of memory.
#[derive(Debug)]
pub(super) struct NoMemory;

/// One of the arrays.
struct Array {
    slots: &'static [Slot],
    /// Where the live entries begin.
    start: usize,
    /// When it became the environment.
    since: Instant,
}

impl Array {
    /// One with at least `count` slots. Sizes are powers of two, so that a later need finds it large enough.
    fn new(count: usize) -> Result<Array, NoMemory> {
        let count = count.next_power_of_two();
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).map_err(|_| NoMemory)?;
        slots.resize_with(count, Slot::default);
        Ok(Array { slots: Vec::leak(slots), start: 0, since: Instant::now() })
    }

    /// The value of `environ` while this array is the environment.
    fn address(&self) -> *mut *mut c_char {
        self.slots[self.start].as_ptr()
    }

    fn contains(&self, address: *mut *mut c_char) -> bool {
        self.slots.as_ptr_range().contains(&address.cast::<Slot>().cast_const())
    }

    /// Replaces its entries by `entries`.
    fn fill(&mut self, entries: impl Iterator<Item = *mut c_char>) {
        (self.start, self.since) = (0, Instant::now());
        self.slots.iter().for_each(|slot| slot.store(ptr::null_mut(), Ordering::Relaxed));
        for (slot, entry) in self.slots.iter().zip(entries) {
            slot.store(entry, Ordering::Relaxed);
        }
    }
}

/// The arrays and strings of one environment. Its `environ` is passed to each method.
pub(super) struct Table {
    /// Every string that was made for an entry, with its NUL. Programs must not write to what `getenv` gives
    /// them (POSIX).
    strings: BTreeSet<&'static [u8]>,
    /// Oldest first. The last is the environment, unless other code has changed `environ`.
    arrays: VecDeque<Array>,
}

impl Table {
    pub(super) const fn new() -> Table {
        Table { strings: BTreeSet::new(), arrays: VecDeque::new() }
    }

    /// The string `name=value`: an existing one if it was made before.
    pub(super) fn intern(&mut self, name: &[u8], value: &[u8]) -> Result<*mut c_char, NoMemory> {
        let parts = [name, b"=", value, b"\0"];
        let mut text = Vec::new();
        text.try_reserve_exact(parts.iter().map(|part| part.len()).sum()).map_err(|_| NoMemory)?;
        parts.iter().for_each(|part| text.extend_from_slice(part));
        let string = match self.strings.get(text.as_slice()) {
            Some(known) => known,
            None => {
                let new: &'static [u8] = Vec::leak(text);
                self.strings.insert(new);
                new
            }
        };
        Ok(string.as_ptr().cast::<c_char>().cast_mut())
    }

    /// Makes `strings` the whole environment, in their order. They are NUL-terminated, and stay.
    pub(super) fn begin(
        &mut self,
        environ: &AtomicPtr<*mut c_char>,
        strings: impl IntoIterator<Item = *mut c_char>,
    ) -> Result<(), NoMemory> {
        let strings: Vec<_> = strings.into_iter().collect();
        let mut array = Array::new(strings.len() + strings.len().max(ROOM) + 1)?;
        array.fill(strings.into_iter());
        environ.store(array.address(), Ordering::Release);
        self.arrays.push_back(array);
        Ok(())
    }

    /// Makes `entry`, which begins with `name=`, the value of `name`.
    pub(super) fn set(
        &mut self,
        environ: &AtomicPtr<*mut c_char>,
        name: &[u8],
        entry: *mut c_char,
    ) -> Result<(), NoMemory> {
        let (known, count) = find(environ, name);
        let array = self.own(environ, count, known.is_none())?;
        // Released: a thread that reads the pointer reads the string.
        match known {
            Some(index) => array.slots[array.start + index].store(entry, Ordering::Release),
            None => {
                let end = array.start + count;
                // Another writer may have left entries behind the end.
                array.slots[end + 1].store(ptr::null_mut(), Ordering::Release);
                array.slots[end].store(entry, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Removes every entry of `name`.
    pub(super) fn remove(
        &mut self,
        environ: &AtomicPtr<*mut c_char>,
        name: &[u8],
    ) -> Result<(), NoMemory> {
        while let (Some(index), count) = find(environ, name) {
            if is_hidden_behind(environ, index) {
                let others = entries(environ).enumerate().filter(|(place, _)| *place != index);
                self.replace(environ, count, others.map(|(_, entry)| entry))?;
                continue;
            }
            let array = self.own(environ, count, false)?;
            let slots = &array.slots[array.start..];
            slots[index].store(slots[0].load(Ordering::Relaxed), Ordering::Release);
            array.start += 1;
            environ.store(array.address(), Ordering::Release);
        }
        Ok(())
    }

    /// The array that is the environment, which has `count` entries. It is a new one if other code changed
    /// `environ`, or if `one_more` is asked for and does not fit.
    fn own(
        &mut self,
        environ: &AtomicPtr<*mut c_char>,
        count: usize,
        one_more: bool,
    ) -> Result<&mut Array, NoMemory> {
        let published = environ.load(Ordering::Relaxed);
        self.reinstate(published);
        let serves = |array: &Array| {
            // The last slot stays null whatever happens.
            let has_room = array.start + count + 1 < array.slots.len();
            array.address() == published && (has_room || !one_more)
        };
        if !self.arrays.back().is_some_and(serves) {
            self.replace(environ, count, entries(environ).take(count))?;
        }
        Ok(self.arrays.back_mut().expect("one was pushed"))
    }

    /// Makes another array with these entries, `count` at most, the environment.
    fn replace(
        &mut self,
        environ: &AtomicPtr<*mut c_char>,
        count: usize,
        entries: impl Iterator<Item = *mut c_char>,
    ) -> Result<(), NoMemory> {
        let slots = count + count.max(ROOM) + 1;
        let mut array = match self.oldest(slots) {
            Some(array) => array,
            None => Array::new(slots)?,
        };
        array.fill(entries);
        environ.store(array.address(), Ordering::Release);
        self.arrays.push_back(array);
        Ok(())
    }

    /// Makes the array that `published` points into the last one, if it is one of these: other code has made it
    /// the environment again.
    fn reinstate(&mut self, published: *mut *mut c_char) {
        let index = self.arrays.iter().rposition(|array| array.contains(published));
        if let Some(index) = index.filter(|index| index + 1 < self.arrays.len())
            && let Some(mut array) = self.arrays.remove(index)
        {
            array.since = Instant::now();
            self.arrays.push_back(array);
        }
    }

    /// The oldest array, if it may be used again for `count` slots. It is not the environment, which is one of
    /// other code's or the last. An array that is too small stays leaked, since a reader may be in it.
    fn oldest(&mut self, count: usize) -> Option<Array> {
        // It stopped being the environment when the next one became it.
        let left = self.arrays.get(1)?.since;
        if left.elapsed() < GRACE && self.arrays.len() < MOST {
            return None;
        }
        let oldest = self.arrays.pop_front()?;
        (oldest.slots.len() >= count).then_some(oldest)
    }
}

/// The entries of the environment.
pub(super) fn entries(environ: &AtomicPtr<*mut c_char>) -> impl Iterator<Item = *mut c_char> {
    let mut slot = environ.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        if slot.is_null() {
            return None;
        }
        // SAFETY: `environ` is null or the address of an array that ends with a null pointer (environ(7)).
        let entry = unsafe { AtomicPtr::from_ptr(slot) }.load(Ordering::Acquire);
        slot = if entry.is_null() { ptr::null_mut() } else { slot.wrapping_add(1) };
        (!entry.is_null()).then_some(entry)
    })
}

/// The index of the first entry of `name`, if any, and the number of entries.
fn find(environ: &AtomicPtr<*mut c_char>, name: &[u8]) -> (Option<usize>, usize) {
    let mut found = None;
    let mut count = 0;
    for entry in entries(environ) {
        if found.is_none() && is_named(entry, name) {
            found = Some(count);
        }
        count += 1;
    }
    (found, count)
}

/// Whether the first entry is the value of a variable that has a second entry before the one at `index`.
fn is_hidden_behind(environ: &AtomicPtr<*mut c_char>, index: usize) -> bool {
    let mut before = entries(environ).take(index);
    before.next().is_some_and(|first| {
        // SAFETY: entries of an environment are NUL-terminated strings.
        let text = unsafe { CStr::from_ptr(first) }.to_bytes();
        let name = text.split(|&byte| byte == b'=').next().unwrap_or_default();
        before.any(|entry| is_named(entry, name))
    })
}

/// Whether an entry is `name=...`.
pub(super) fn is_named(entry: *mut c_char, name: &[u8]) -> bool {
    // Byte by byte, as the entry may be shorter.
    let byte = |index: usize| {
        // SAFETY: entries are NUL-terminated strings. All bytes before this one were those of the name,
        // and no byte of a name is NUL.
        unsafe { *entry.add(index) as u8 }
    };
    name.iter().enumerate().all(|(index, &wanted)| byte(index) == wanted)
        && byte(name.len()) == b'='
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn set(table: &mut Table, environ: &AtomicPtr<*mut c_char>, name: &str, value: &str) {
        let entry = table.intern(name.as_bytes(), value.as_bytes()).unwrap();
        table.set(environ, name.as_bytes(), entry).unwrap();
    }

    fn texts(environ: &AtomicPtr<*mut c_char>) -> Vec<String> {
        let text = |entry: *mut c_char| {
            // SAFETY: entries of these tests are C strings.
            unsafe { CStr::from_ptr(entry) }.to_str().unwrap().to_owned()
        };
        entries(environ).map(text).collect()
    }

    #[test]
    fn variables_are_set_replaced_and_removed() {
        let mut initial =
            [c"A=1", c"B=2", c"A=3", c"AB=4"].map(|text| text.as_ptr().cast_mut()).to_vec();
        initial.push(ptr::null_mut());
        let environ = AtomicPtr::new(initial.as_mut_ptr());
        let mut table = Table::new();
        set(&mut table, &environ, "B", "5");
        set(&mut table, &environ, "C", "");
        assert_eq!(texts(&environ), ["A=1", "B=5", "A=3", "AB=4", "C="]);
        table.remove(&environ, b"A").unwrap();
        assert_eq!(texts(&environ), ["B=5", "AB=4", "C="]);
        table.remove(&environ, b"D").unwrap();
        // Other code clears it, or assigns to it.
        environ.store(ptr::null_mut(), Ordering::Relaxed);
        set(&mut table, &environ, "D", "6");
        assert_eq!(texts(&environ), ["D=6"]);
        environ.store(initial.as_mut_ptr(), Ordering::Relaxed);
        table.remove(&environ, b"B").unwrap();
        assert_eq!(texts(&environ), ["A=1", "A=3", "AB=4"]);
        // The first value of A stays the first.
        table.remove(&environ, b"AB").unwrap();
        assert_eq!(texts(&environ), ["A=1", "A=3"]);
    }

    #[test]
    fn a_million_changes_take_a_bounded_number_of_arrays_and_strings() {
        let environ = AtomicPtr::new(ptr::null_mut());
        let mut table = Table::new();
        let mut seen = BTreeSet::new();
        for round in 0..1_000_000 {
            let value = ["on", "off"][round % 2];
            set(&mut table, &environ, "SWITCH", value);
            if round % 3 == 0 {
                set(&mut table, &environ, "OTHER", value);
                table.remove(&environ, b"SWITCH").unwrap();
            }
            seen.insert(table.arrays.back().unwrap().slots.as_ptr() as usize);
        }
        assert_eq!(table.strings.len(), 4);
        assert!(seen.len() <= MOST, "{} arrays", seen.len());
        let largest = table.arrays.iter().map(|array| array.slots.len()).max();
        assert!(largest.unwrap() <= 4 * ROOM + 4);
    }

    #[test]
    fn old_addresses_that_a_program_assigns_again_and_again_take_no_further_arrays() {
        let environ = AtomicPtr::new(ptr::null_mut());
        let mut table = Table::new();
        let mut seen = BTreeSet::new();
        for round in 0..3 * MOST {
            if let Some(array) = table.arrays.front() {
                // Its second entry, so that the array cannot serve as it is.
                environ.store(array.slots[array.start + 1].as_ptr(), Ordering::Relaxed);
            }
            set(&mut table, &environ, "A", "1");
            set(&mut table, &environ, &format!("B{}", round % 2), "2");
            assert_eq!(texts(&environ).iter().filter(|text| *text == "A=1").count(), 1);
            seen.extend(table.arrays.iter().map(|array| array.slots.as_ptr() as usize));
        }
        assert!(seen.len() <= MOST, "{} arrays", seen.len());
    }

    #[test]
    fn an_array_that_a_program_has_assigned_again_is_left_alone_for_its_readers() {
        let environ = AtomicPtr::new(ptr::null_mut());
        let mut table = Table::new();
        set(&mut table, &environ, "KEPT", "1");
        let kept = environ.load(Ordering::Relaxed);
        environ.store(ptr::null_mut(), Ordering::Relaxed);
        set(&mut table, &environ, "OTHER", "1");
        std::thread::sleep(GRACE);
        environ.store(kept, Ordering::Relaxed);
        assert_eq!(texts(&environ), ["KEPT=1"]);
        set(&mut table, &environ, "KEPT", "2");
        assert_eq!(environ.load(Ordering::Relaxed), kept, "it serves as it is");
        // Readers of `kept` began a moment ago.
        environ.store(ptr::null_mut(), Ordering::Relaxed);
        set(&mut table, &environ, "NEXT", "1");
        environ.store(ptr::null_mut(), Ordering::Relaxed);
        set(&mut table, &environ, "LAST", "1");
        assert_eq!(texts(&AtomicPtr::new(kept)), ["KEPT=2"]);
    }

    /// The entries as `execve` takes them: it counts them, and reads the last one first.
    fn from_the_last(environ: &AtomicPtr<*mut c_char>) -> Vec<String> {
        let address = environ.load(Ordering::Acquire);
        let count = entries(&AtomicPtr::new(address)).count();
        let slot = |index: usize| {
            // SAFETY: the array has had so many entries, and stays.
            let entry = unsafe { AtomicPtr::from_ptr(address.add(index)) }.load(Ordering::Acquire);
            // SAFETY: entries of these tests are C strings.
            unsafe { CStr::from_ptr(entry) }.to_str().unwrap().to_owned()
        };
        (0..count).rev().map(slot).collect()
    }

    #[test]
    fn a_reader_meets_each_variable_that_stays() {
        readers_meet_each_variable_that_stays(texts);
    }

    #[test]
    fn a_reader_that_begins_with_the_last_meets_each_variable_that_stays() {
        readers_meet_each_variable_that_stays(from_the_last);
    }

    fn readers_meet_each_variable_that_stays(read: fn(&AtomicPtr<*mut c_char>) -> Vec<String>) {
        let environ = AtomicPtr::new(ptr::null_mut());
        let stop = AtomicBool::new(false);
        let mut table = Table::new();
        (0..20).for_each(|index| set(&mut table, &environ, &format!("STAYS{index}"), "1"));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut walks = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let found = read(&environ);
                    if begun.elapsed() >= GRACE {
                        continue;
                    }
                    for index in 0..20 {
                        let wanted = format!("STAYS{index}=1");
                        assert!(found.contains(&wanted), "{wanted} is not among {found:?}");
                    }
                    walks += 1;
                }
                walks
            });
            for round in 0..20_000 {
                // Variables before and behind those that stay.
                let names = [round % 7, round % 5].map(|index| format!("GOES{index}"));
                names.iter().for_each(|name| set(&mut table, &environ, name, "2"));
                names.iter().for_each(|name| table.remove(&environ, name.as_bytes()).unwrap());
            }
            stop.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
    }
}
