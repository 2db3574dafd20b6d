//! The object that an address lies in.

use std::ffi::CStr;

use crate::id::DomainId;
use crate::sys::own_memory::{read, word};
use crate::sys::quiet_file::link_target;
use crate::visible::{publish, unwind};

const LINE: usize = 64;

/// The object that an address lies in: a replica, or a system object. It holds addresses alone, so nothing is kept.
#[derive(Clone, Copy, Debug)]
pub struct CodePlace {
    domain: Option<DomainId>,
    /// Where the file's name is.
    name: usize,
    /// The address in the file.
    offset: usize,
}

impl CodePlace {
    /// The object that `address` lies in, if there is one. A handler of signals may ask.
    pub fn of(address: usize) -> Option<CodePlace> {
        let (link_map, domain) = match publish::find_range(address) {
            Some(range) => (range.link_map, Some(range.domain)),
            None => (unwind::object_at(address)?.link_map, None),
        };
        // `l_addr` and `l_name` (<link.h>).
        let (bias, name) = (word(link_map)?, word(link_map + size_of::<usize>())?);
        Some(CodePlace { domain, name, offset: address.wrapping_sub(bias) })
    }

    /// The domain whose replica it is; none for a system object.
    pub fn domain(&self) -> Option<DomainId> {
        self.domain
    }

    /// Whether both lie in one object.
    pub(super) fn is_same_object(&self, other: &CodePlace) -> bool {
        self.name == other.name && self.domain == other.domain
    }

    /// The address as in the file, which `addr2line` and `objdump` expect.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The path of its file, as far as `buffer` has room with a byte to spare. `linux-vdso.so.1` has none, and is named so.
    pub fn path<'a>(&self, buffer: &'a mut [u8]) -> &'a CStr {
        let room = buffer.len().saturating_sub(1);
        let mut count = 0;
        while count < room {
            // Within a line of the cache, which is readable as a whole or not at all.
            let part = (LINE - (self.name + count) % LINE).min(room - count);
            let part = &mut buffer[count..count + part];
            let has_read = read(self.name + count, part);
            let text = part.iter().position(|byte| *byte == 0).unwrap_or(part.len());
            if !has_read {
                break;
            }
            count += text;
            if text < part.len() {
                break;
            }
        }
        // The program's own is not there.
        if count == 0 {
            count = link_target(c"/proc/self/exe", &mut buffer[..room]).map_or(0, <[u8]>::len);
        }
        let Some(text) = buffer.get_mut(..=count) else { return c"" };
        text[count] = 0;
        CStr::from_bytes_until_nul(text).unwrap_or_default()
    }

    /// Whether it lies in the program's executable.
    pub fn is_in_the_program(&self) -> bool {
        self.domain.is_none() && word(self.name).is_some_and(|text| text.to_ne_bytes()[0] == 0)
    }
}
