//! `getopt` and its relatives: a program's position in its arguments, and the variables that report to it.
//!
//! glibc keeps its position where no other code can reach it, so this module implements the rules of getopt(3) itself.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::slice;

use super::{Answer, Own};
use crate::sys::answering::answering;

/// `struct option` (<getopt.h>).
#[repr(C)]
pub(super) struct LongOption {
    name: *const c_char,
    argument: c_int,
    flag: *mut c_int,
    value: c_int,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Other arguments move behind the options.
    Permuted,
    /// They end the options.
    Required,
    /// They are returned, as arguments of an option with the number 1.
    Kept,
}

#[derive(Debug)]
pub(super) struct Options {
    /// `optarg`, `optind`, `opterr` and `optopt`.
    argument: Own<*mut c_char>,
    index: Own<c_int>,
    prints: Own<c_int>,
    wrong: Own<c_int>,
    place: Own<Position>,
}

/// The state that no variable shows.
#[derive(Debug)]
struct Position {
    has_begun: bool,
    order: Order,
    /// The rest of an argument with several options. Null if the next argument comes next.
    rest: *mut c_char,
    /// The non-option arguments that were passed over.
    first: c_int,
    last: c_int,
    /// The value that each call leaves in `optopt` (posix/getopt.c, `_getopt_internal`).
    wrong: c_int,
}

impl Options {
    pub(super) fn new() -> Options {
        let place = Position {
            has_begun: false,
            order: Order::Permuted,
            rest: ptr::null_mut(),
            first: 0,
            last: 0,
            wrong: 0,
        };
        Options {
            argument: Own::new(ptr::null_mut()),
            index: Own::new(1),
            prints: Own::new(1),
            wrong: Own::new(c_int::from(b'?')),
            place: Own::new(place),
        }
    }

    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        all.push(Answer::variable("optarg", &self.argument));
        all.push(Answer::variable("optind", &self.index));
        all.push(Answer::variable("opterr", &self.prints));
        all.push(Answer::variable("optopt", &self.wrong));
        all.extend(Answer::functions(functions(), &raw const *self));
    }
}

type Arguments = *mut *mut c_char;

answering! {
    fn functions, own: &Options;

    /// `getopt(count, arguments, options)`.
    "getopt" => extern "C" fn getopt(
        count: c_int, arguments: Arguments, options: *const c_char,
    ) -> c_int {
        own.next(count, arguments, options, &Long::NONE, false)
    }

    /// `getopt` of a program that was compiled for POSIX alone.
    "__posix_getopt" => extern "C" fn posix_getopt(
        count: c_int, arguments: Arguments, options: *const c_char,
    ) -> c_int {
        own.next(count, arguments, options, &Long::NONE, true)
    }

    /// `getopt_long(count, arguments, options, long, index)`.
    "getopt_long" => extern "C" fn getopt_long(
        count: c_int, arguments: Arguments, options: *const c_char, long: *const LongOption, index: *mut c_int,
    ) -> c_int {
        own.next(count, arguments, options, &Long::of(long, index, false), false)
    }

    /// `getopt_long_only(count, arguments, options, long, index)`.
    "getopt_long_only" => extern "C" fn getopt_long_only(
        count: c_int, arguments: Arguments, options: *const c_char, long: *const LongOption, index: *mut c_int,
    ) -> c_int {
        own.next(count, arguments, options, &Long::of(long, index, true), false)
    }
}

/// The long options of a call.
struct Long<'a> {
    options: &'a [LongOption],
    is_given: bool,
    index: *mut c_int,
    /// Whether one dash begins them too.
    only: bool,
}

impl Long<'_> {
    const NONE: Long<'static> =
        Long { options: &[], is_given: false, index: ptr::null_mut(), only: false };

    /// # Safety
    /// `options` is null, or ends with one without a name.
    unsafe fn of<'a>(options: *const LongOption, index: *mut c_int, only: bool) -> Long<'a> {
        if options.is_null() {
            return Long { only, ..Long::NONE };
        }
        // SAFETY: by contract.
        let options = unsafe {
            let count = (0..).take_while(|&at| !(*options.add(at)).name.is_null()).count();
            slice::from_raw_parts(options, count)
        };
        Long { options, is_given: true, index, only }
    }
}

/// A call.
struct Call<'a> {
    own: &'a Options,
    place: &'a mut Position,
    arguments: &'a mut [*mut c_char],
    /// The short options behind a sign of the order.
    options: &'a [u8],
    long: &'a Long<'a>,
    prints: bool,
}

impl Options {
    /// # Safety
    /// As getopt_long(3): as many arguments, and the options, are NUL-terminated.
    unsafe fn next(
        &self,
        count: c_int,
        arguments: *mut *mut c_char,
        options: *const c_char,
        long: &Long<'_>,
        is_posix: bool,
    ) -> c_int {
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else { return -1 };
        // SAFETY: the caller's promise; one thread of a program uses the variables at a time.
        unsafe {
            self.argument.place().write(ptr::null_mut());
            let index = &mut *self.index.place();
            let place = &mut *self.place.place();
            let mut options = CStr::from_ptr(options).to_bytes();
            let sign = options.first().copied().filter(|first| b"-+".contains(first));
            if sign.is_some() {
                options = &options[1..];
            }
            if *index == 0 || !place.has_begun {
                *index = (*index).max(1);
                let is_posix = || is_posix || !libc::getenv(c"POSIXLY_CORRECT".as_ptr()).is_null();
                let order = match sign {
                    Some(b'-') => Order::Kept,
                    None if !is_posix() => Order::Permuted,
                    _ => Order::Required,
                };
                *place = Position {
                    has_begun: true,
                    order,
                    rest: ptr::null_mut(),
                    first: *index,
                    last: *index,
                    wrong: place.wrong,
                };
            }
            let prints = *self.prints.place() != 0 && options.first() != Some(&b':');
            let arguments = slice::from_raw_parts_mut(arguments, count);
            let found = Call { own: self, place, arguments, options, long, prints }.next();
            self.wrong.place().write((*self.place.place()).wrong);
            found
        }
    }
}

/// Error messages in glibc's words, which it translates (posix/getopt.c).
const INVALID: &CStr = c"%s: invalid option -- '%c'\n";
const LACKS: &CStr = c"%s: option requires an argument -- '%c'\n";
const AMBIGUOUS: &CStr = c"%s: option '%s%s' is ambiguous; possibilities:";
const UNKNOWN: &CStr = c"%s: unrecognized option '%s%s'\n";
const TAKES_NONE: &CStr = c"%s: option '%s%s' doesn't allow an argument\n";
const LONG_LACKS: &CStr = c"%s: option '%s%s' requires an argument\n";

/// # Safety
/// Of all methods: the call's arguments are as getopt_long(3) says.
impl Call<'_> {
    fn index(&self) -> c_int {
        // SAFETY: the domain's variable, which one thread of a program uses at a time.
        unsafe { *self.own.index.place() }
    }

    fn set_index(&mut self, index: c_int) {
        // SAFETY: as above.
        unsafe { self.own.index.place().write(index) };
    }

    fn set_argument(&mut self, argument: *mut c_char) {
        // SAFETY: as above.
        unsafe { self.own.argument.place().write(argument) };
    }

    /// Notes a wrong option.
    fn set_wrong(&mut self, option: c_int) {
        self.place.wrong = option;
    }

    fn count(&self) -> c_int {
        self.arguments.len() as c_int
    }

    unsafe fn text(&self, index: c_int) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(self.arguments[index as usize]).to_bytes() }
    }

    /// Whether an argument is not an option.
    unsafe fn is_other(&self, index: c_int) -> bool {
        // SAFETY: the caller's promise.
        let text = unsafe { self.text(index) };
        text.first() != Some(&b'-') || text.len() == 1
    }

    /// Puts the options behind arguments that were passed over before them.
    fn exchange(&mut self) {
        let Position { first, last, .. } = *self.place;
        let index = self.index();
        self.arguments[first as usize..index as usize].rotate_left((last - first) as usize);
        (self.place.first, self.place.last) = (first + index - last, index);
    }

    /// The same if such arguments exist, and otherwise notes that none were passed over.
    fn settle(&mut self) {
        let Position { first, last, .. } = *self.place;
        if first != last && last != self.index() {
            self.exchange();
        } else if first == last {
            self.place.first = self.index();
        }
    }

    unsafe fn next(&mut self) -> c_int {
        // SAFETY: the caller's promise, in all of this function.
        unsafe {
            if self.place.rest.is_null() || *self.place.rest == 0 {
                self.place.last = self.place.last.min(self.index());
                self.place.first = self.place.first.min(self.index());
                if self.place.order == Order::Permuted {
                    let Position { first, last, .. } = *self.place;
                    if first != last && last != self.index() {
                        self.exchange();
                    } else if last != self.index() {
                        self.place.first = self.index();
                    }
                    let mut index = self.index();
                    while index < self.count() && self.is_other(index) {
                        index += 1;
                    }
                    self.set_index(index);
                    self.place.last = index;
                }
                if self.index() != self.count() && self.text(self.index()) == b"--" {
                    self.set_index(self.index() + 1);
                    self.settle();
                    self.place.last = self.count();
                    self.set_index(self.count());
                }
                if self.index() == self.count() {
                    if self.place.first != self.place.last {
                        self.set_index(self.place.first);
                    }
                    return -1;
                }
                let index = self.index();
                let argument = self.arguments[index as usize];
                if self.is_other(index) {
                    if self.place.order == Order::Required {
                        return -1;
                    }
                    self.set_argument(argument);
                    self.set_index(index + 1);
                    return 1;
                }
                if self.long.is_given {
                    let text = self.text(index);
                    if text[1] == b'-' {
                        self.place.rest = argument.add(2);
                        return self.long_option(c"--", self.long.only).unwrap_or(-1);
                    }
                    let is_short = text.len() == 2 && self.options.contains(&text[1]);
                    if self.long.only && !is_short {
                        self.place.rest = argument.add(1);
                        if let Some(found) = self.long_option(c"-", true) {
                            return found;
                        }
                    }
                }
                self.place.rest = argument.add(1);
            }
            self.short_option()
        }
    }

    unsafe fn short_option(&mut self) -> c_int {
        // SAFETY: the caller's promise, in all of this function.
        unsafe {
            let option = *self.place.rest as u8;
            self.place.rest = self.place.rest.add(1);
            if *self.place.rest == 0 {
                self.set_index(self.index() + 1);
            }
            let known = self.options.iter().position(|known| *known == option);
            let Some(known) = known.filter(|_| !b":;".contains(&option)) else {
                self.print_short(INVALID, option);
                return c_int::from(b'?');
            };
            let takes = &self.options[known + 1..];
            let index = self.index();
            let rest = (*self.place.rest != 0).then_some(self.place.rest);
            if option == b'W' && takes.first() == Some(&b';') && self.long.is_given {
                self.place.rest = match rest {
                    Some(rest) => rest,
                    None if index == self.count() => return self.lacks(option),
                    None => self.arguments[index as usize],
                };
                return self.long_option(c"-W ", false).unwrap_or(-1);
            }
            let is_optional = takes.get(1) == Some(&b':');
            if takes.first() == Some(&b':') {
                self.place.rest = ptr::null_mut();
                match rest {
                    Some(rest) => {
                        self.set_argument(rest);
                        self.set_index(index + 1);
                    }
                    None if is_optional => self.set_argument(ptr::null_mut()),
                    None if index == self.count() => return self.lacks(option),
                    None => {
                        self.set_argument(self.arguments[index as usize]);
                        self.set_index(index + 1);
                    }
                }
            }
            // A `char`, which has a sign on x86-64.
            c_int::from(option as c_char)
        }
    }

    /// Reports an option without its argument, and returns the result of the call.
    unsafe fn lacks(&mut self, option: u8) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { self.print_short(LACKS, option) };
        self.missing()
    }

    fn missing(&self) -> c_int {
        c_int::from(if self.options.first() == Some(&b':') { b':' } else { b'?' })
    }

    /// Looks at a long option, whose name is at the place's rest. None if it may be a short one.
    unsafe fn long_option(&mut self, prefix: &CStr, only: bool) -> Option<c_int> {
        // SAFETY: the caller's promise, in all of this function.
        unsafe {
            let given = self.place.rest;
            let text = CStr::from_ptr(given).to_bytes();
            let length = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
            let name = &text[..length];
            let options = self.long.options;
            let full = |option: &LongOption| CStr::from_ptr(option.name).to_bytes();
            let exact = options.iter().position(|option| full(option) == name);
            let starts = |at: &usize| full(&options[*at]).starts_with(name);
            let found = exact.or_else(|| (0..options.len()).find(starts));
            let Some(found) = found else {
                let is_double = self.text(self.index()).get(1) == Some(&b'-');
                let may_be_short = text.first().is_none_or(|first| self.options.contains(first));
                if only && !is_double && may_be_short {
                    return None;
                }
                self.print(UNKNOWN, prefix, given);
                return Some(self.wrong(0));
            };
            let option = &options[found];
            let is_other = |at: &usize| {
                let other = &options[*at];
                let same = (other.argument, other.flag, other.value)
                    == (option.argument, option.flag, option.value);
                starts(at) && (only || !same)
            };
            let others: Vec<usize> = match exact {
                Some(_) => Vec::new(),
                None => (found + 1..options.len()).filter(is_other).collect(),
            };
            if !others.is_empty() {
                self.print(AMBIGUOUS, prefix, given);
                if self.prints {
                    for at in [found].into_iter().chain(others) {
                        libc::fprintf(
                            stderr,
                            c" '%s%s'".as_ptr(),
                            prefix.as_ptr(),
                            options[at].name,
                        );
                    }
                    libc::fprintf(stderr, c"\n".as_ptr());
                }
                return Some(self.wrong(0));
            }
            self.set_index(self.index() + 1);
            self.place.rest = ptr::null_mut();
            let index = self.index();
            if length < text.len() {
                if option.argument == 0 {
                    self.print(TAKES_NONE, prefix, option.name);
                    self.set_wrong(option.value);
                    return Some(c_int::from(b'?'));
                }
                self.set_argument(given.add(length + 1));
            } else if option.argument == 1 {
                if index >= self.count() {
                    self.print(LONG_LACKS, prefix, option.name);
                    self.set_wrong(option.value);
                    return Some(self.missing());
                }
                self.set_argument(self.arguments[index as usize]);
                self.set_index(index + 1);
            }
            if !self.long.index.is_null() {
                self.long.index.write(found as c_int);
            }
            if option.flag.is_null() {
                return Some(option.value);
            }
            option.flag.write(option.value);
            Some(0)
        }
    }

    /// Passes over an argument that is wrong.
    fn wrong(&mut self, option: c_int) -> c_int {
        self.place.rest = ptr::null_mut();
        self.set_index(self.index() + 1);
        self.set_wrong(option);
        c_int::from(b'?')
    }

    /// Notes a wrong short option, and prints the program's name and the option.
    unsafe fn print_short(&mut self, words: &CStr, option: u8) {
        self.set_wrong(c_int::from(option as c_char));
        if self.prints {
            // SAFETY: the format has places for these two.
            unsafe {
                libc::fprintf(
                    stderr,
                    translated(words),
                    self.arguments[0],
                    c_int::from(option as c_char),
                )
            };
        }
    }

    /// Prints the program's name, and an option behind its dashes.
    unsafe fn print(&self, words: &CStr, prefix: &CStr, option: *const c_char) {
        if self.prints {
            // SAFETY: the format has places for these three.
            unsafe {
                libc::fprintf(stderr, translated(words), self.arguments[0], prefix.as_ptr(), option)
            };
        }
    }
}

unsafe extern "C" {
    static stderr: *mut libc::FILE;
    fn dcgettext(name: *const c_char, text: *const c_char, category: c_int) -> *mut c_char;
}

/// The words in the language of the thread's locale. They are in the C library's own text domain.
fn translated(words: &CStr) -> *const c_char {
    // SAFETY: texts that end in NUL.
    unsafe { dcgettext(c"libc".as_ptr(), words.as_ptr(), libc::LC_MESSAGES) }
}
