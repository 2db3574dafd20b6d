//! Structures with pointers to texts, which the C library fills, and copies of them.

use std::ffi::{CStr, c_char, c_int};
use std::mem::offset_of;
use std::ptr;

/// A kind of structure.
#[derive(Debug)]
pub(super) struct Layout {
    size: usize,
    parts: &'static [Part],
}

/// A part that is a pointer, by its offset.
#[derive(Debug)]
enum Part {
    /// To a text.
    Text(usize),
    /// To pointers to texts, with a null pointer behind them.
    Texts(usize),
    /// To pointers to so many texts as the number at the second offset says.
    Counted(usize, usize),
    /// To pointers to blocks, with a null pointer behind them. The number at the second offset is a block's size.
    Blocks(usize, usize),
}

use Part::{Blocks, Counted, Text, Texts};

macro_rules! layout {
    ($name:ident, $type:ty: $($kind:ident($($field:ident),+)),*) => {
        pub(super) const $name: Layout = Layout {
            size: size_of::<$type>(),
            parts: &[$($kind($(offset_of!($type, $field)),+)),*],
        };
    };
}

/// `struct netent` (<netdb.h>).
#[repr(C)]
struct Network {
    name: *mut c_char,
    aliases: *mut *mut c_char,
    address_type: c_int,
    number: u32,
}

/// `struct rpcent` (<rpc/netdb.h>).
#[repr(C)]
struct Program {
    name: *mut c_char,
    aliases: *mut *mut c_char,
    number: c_int,
}

/// `struct aliasent` (<aliases.h>).
#[repr(C)]
struct MailAlias {
    name: *mut c_char,
    count: usize,
    members: *mut *mut c_char,
    is_local: c_int,
}

/// `struct sgrp` (<gshadow.h>).
#[repr(C)]
struct ShadowGroup {
    name: *mut c_char,
    password: *mut c_char,
    administrators: *mut *mut c_char,
    members: *mut *mut c_char,
}

/// `struct fstab` (<fstab.h>).
#[repr(C)]
struct FileSystem {
    device: *mut c_char,
    folder: *mut c_char,
    kind: *mut c_char,
    options: *mut c_char,
    access: *const c_char,
    frequency: c_int,
    pass: c_int,
}

/// `struct ttyent` (<ttyent.h>).
#[repr(C)]
struct Terminal {
    name: *mut c_char,
    command: *mut c_char,
    kind: *mut c_char,
    status: c_int,
    window: *mut c_char,
    comment: *mut c_char,
}

/// Three pointers to texts, each of which may be null: an entry of a group of the network.
#[repr(C)]
struct Triple {
    host: *mut c_char,
    user: *mut c_char,
    domain: *mut c_char,
}

/// One pointer to a text.
#[repr(C)]
struct Line {
    text: *mut c_char,
}

layout!(GROUP, libc::group: Text(gr_name), Text(gr_passwd), Texts(gr_mem));
layout!(USER, libc::passwd: Text(pw_name), Text(pw_passwd), Text(pw_gecos), Text(pw_dir), Text(pw_shell));
layout!(SHADOW, libc::spwd: Text(sp_namp), Text(sp_pwdp));
layout!(SHADOW_GROUP, ShadowGroup: Text(name), Text(password), Texts(administrators), Texts(members));
layout!(SERVICE, libc::servent: Text(s_name), Texts(s_aliases), Text(s_proto));
layout!(PROTOCOL, libc::protoent: Text(p_name), Texts(p_aliases));
layout!(NETWORK, Network: Text(name), Texts(aliases));
layout!(HOST, libc::hostent: Text(h_name), Texts(h_aliases), Blocks(h_addr_list, h_length));
layout!(PROGRAM, Program: Text(name), Texts(aliases));
layout!(MAIL_ALIAS, MailAlias: Text(name), Counted(members, count));
layout!(FILE_SYSTEM, FileSystem: Text(device), Text(folder), Text(kind), Text(options), Text(access));
layout!(TERMINAL, Terminal: Text(name), Text(command), Text(kind), Text(window), Text(comment));
layout!(TRIPLE, Triple: Text(host), Text(user), Text(domain));
layout!(LINE, Line: Text(text));
layout!(LOGIN, libc::utmpx:);

/// A structure with everything that it points to, in one piece of memory.
#[derive(Debug)]
pub(super) struct Record {
    memory: Box<[u64]>,
}

// SAFETY: its pointers lead into its own memory.
unsafe impl Send for Record {}

impl Record {
    pub(super) fn place(&self) -> *mut u8 {
        self.memory.as_ptr().cast_mut().cast()
    }
}

/// Memory to copy into.
struct Room {
    next: *mut u8,
    left: usize,
}

impl Room {
    fn take(&mut self, size: usize, alignment: usize) -> Option<*mut u8> {
        let skipped = self.next.align_offset(alignment);
        self.left = self.left.checked_sub(skipped.checked_add(size)?)?;
        let taken = self.next.wrapping_add(skipped);
        self.next = taken.wrapping_add(size);
        Some(taken)
    }

    /// # Safety
    /// As many bytes are at `from`, and the room is memory.
    unsafe fn copy(&mut self, from: *const u8, size: usize) -> Option<*mut c_char> {
        if from.is_null() {
            return Some(ptr::null_mut());
        }
        let to = self.take(size, 1)?;
        // SAFETY: by contract; nobody else owns the taken part.
        unsafe { ptr::copy_nonoverlapping(from, to, size) };
        Some(to.cast())
    }
}

impl Layout {
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// A copy.
    ///
    /// # Safety
    /// `from` is such a structure, and its pointers are valid.
    pub(super) unsafe fn record(&self, from: *const u8) -> Record {
        // SAFETY: by contract.
        let needed = unsafe { self.needed(from) };
        let words = |bytes: usize| bytes.div_ceil(size_of::<u64>());
        let head = words(self.size);
        let mut memory = vec![0; head + words(needed)].into_boxed_slice();
        let to = memory.as_mut_ptr();
        // SAFETY: the structure takes `head` words of the memory, and the data behind it the others.
        let copied = unsafe { self.copy(from, to.cast(), to.add(head).cast(), needed) };
        debug_assert!(copied, "{needed} bytes were counted");
        Record { memory }
    }

    /// Bytes that the data behind its pointers needs.
    ///
    /// # Safety
    /// As for [`Layout::record`].
    unsafe fn needed(&self, from: *const u8) -> usize {
        self.parts
            .iter()
            .map(|part| {
                // SAFETY: by contract.
                unsafe {
                    let list = part.list(from);
                    let listed: usize = list.iter().map(|&item| part.size(from, item)).sum();
                    match part {
                        Text(_) => listed,
                        // Up to 7 bytes are skipped before the pointers.
                        _ => (list.len() + 2) * size_of::<usize>() + listed,
                    }
                }
            })
            .sum()
    }

    /// Copies the structure to `to`, and the data behind it into `length` bytes at `room`. False if these are too few.
    ///
    /// # Safety
    /// As for [`Layout::record`]; `to` has room for such a structure.
    pub(super) unsafe fn copy(
        &self,
        from: *const u8,
        to: *mut u8,
        room: *mut u8,
        length: usize,
    ) -> bool {
        let mut room = Room { next: room, left: length };
        // SAFETY: by contract.
        unsafe {
            ptr::copy_nonoverlapping(from, to, self.size);
            self.parts.iter().all(|part| part.copy(from, to, &mut room).is_some())
        }
    }
}

impl Part {
    fn offset(&self) -> usize {
        let (Text(at) | Texts(at) | Counted(at, _) | Blocks(at, _)) = *self;
        at
    }

    /// The pointers to texts or blocks; one for a text itself.
    ///
    /// # Safety
    /// `from` is a structure with this part.
    unsafe fn list<'a>(&self, from: *const u8) -> &'a [*const u8] {
        // SAFETY: by contract: a pointer is at the offset, and the list ends as the part says.
        unsafe {
            let place = from.add(self.offset());
            if let Text(_) = self {
                return std::slice::from_ref(&*place.cast());
            }
            let list = place.cast::<*const *const u8>().read();
            if list.is_null() {
                return &[];
            }
            let count = match self {
                Counted(_, count) => from.add(*count).cast::<usize>().read(),
                _ => (0..).position(|at| (*list.add(at)).is_null()).unwrap_or(0),
            };
            std::slice::from_raw_parts(list, count)
        }
    }

    /// The bytes of one of them.
    ///
    /// # Safety
    /// As for [`Part::list`], of which `item` is.
    unsafe fn size(&self, from: *const u8, item: *const u8) -> usize {
        // SAFETY: by contract.
        unsafe {
            match self {
                Blocks(_, size) => from.add(*size).cast::<c_int>().read().max(0) as usize,
                _ if item.is_null() => 0,
                _ => CStr::from_ptr(item.cast()).count_bytes() + 1,
            }
        }
    }

    /// # Safety
    /// As for [`Layout::copy`].
    unsafe fn copy(&self, from: *const u8, to: *mut u8, room: &mut Room) -> Option<()> {
        // SAFETY: by contract.
        unsafe {
            let list = self.list(from);
            let place = to.add(self.offset()).cast::<*mut c_char>();
            if let Text(_) = self {
                place.write(room.copy(list[0], self.size(from, list[0]))?);
                return Some(());
            }
            if from.add(self.offset()).cast::<*const u8>().read().is_null() {
                return Some(());
            }
            let size = (list.len() + 1) * size_of::<usize>();
            let copies = room.take(size, align_of::<usize>())?.cast::<*mut c_char>();
            place.cast::<*mut *mut c_char>().write(copies);
            for (at, &item) in list.iter().enumerate() {
                copies.add(at).write(room.copy(item, self.size(from, item))?);
            }
            copies.add(list.len()).write(ptr::null_mut());
            Some(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_leads_to_copies_and_needs_no_more_room_than_was_counted() {
        let texts = [c"name", c"password", c"one", c"two"].map(|text| text.as_ptr().cast_mut());
        let mut members = [texts[2], texts[3], ptr::null_mut()];
        let group = libc::group {
            gr_name: texts[0],
            gr_passwd: texts[1],
            gr_gid: 7,
            gr_mem: members.as_mut_ptr(),
        };
        let from = (&raw const group).cast();
        let is_equal = |copy: *const u8| {
            // SAFETY: a copy of a group.
            unsafe {
                let copy = &*copy.cast::<libc::group>();
                let texts = [copy.gr_name, copy.gr_passwd, *copy.gr_mem, *copy.gr_mem.add(1)];
                let texts = texts.map(|text| CStr::from_ptr(text).to_str().unwrap());
                assert_eq!((texts, copy.gr_gid), (["name", "password", "one", "two"], 7));
                assert!((*copy.gr_mem.add(2)).is_null() && copy.gr_mem != group.gr_mem);
            }
        };
        // SAFETY: a group whose texts live as long.
        unsafe {
            is_equal(GROUP.record(from).place());
            let (mut to, mut room) = ([0u64; 4], [0u64; 8]);
            let [to, room] = [to.as_mut_ptr().cast::<u8>(), room.as_mut_ptr().cast::<u8>()];
            // 5 + 9 + 3 pointers + 4 + 4, and two bytes before the pointers.
            let least = (0..64).find(|&length| GROUP.copy(from, to, room, length));
            assert_eq!(least, Some(48));
            is_equal(to);
            assert!(GROUP.copy(from, to, room.add(1), 48 + 7));
            is_equal(to);
        }
    }
}
