//! The table of `hsearch`, and the regular expression of `re_comp`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

use super::{Answer, Own};
use crate::sys::lock::{Mutex, Rank};

/// `struct hsearch_data` (<search.h>).
#[derive(Debug, Default)]
#[repr(C)]
struct Table {
    entries: usize,
    size: c_uint,
    filled: c_uint,
}

/// `ENTRY` (<search.h>).
#[repr(C)]
struct SearchEntry {
    key: *mut c_char,
    data: *mut c_void,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    table: Own<Table>,
    expression: Own<Option<Box<libc::regex_t>>>,
    /// `re_syntax_options`.
    syntax: Own<c_ulong>,
}

unsafe extern "C" {
    fn hcreate_r(count: usize, table: *mut Table) -> c_int;
    fn hdestroy_r(table: *mut Table);
    fn hsearch_r(
        entry: SearchEntry,
        action: c_int,
        found: *mut *mut SearchEntry,
        table: *mut Table,
    ) -> c_int;
    fn re_compile_pattern(
        text: *const c_char,
        size: usize,
        expression: *mut libc::regex_t,
    ) -> *const c_char;
    static mut re_syntax_options: c_ulong;
}

/// The C library's variable has the syntax of one domain while it compiles an expression for it.
static COMPILING: Mutex<()> = Mutex::new(Rank::Answers, ());

impl Tables {
    pub(super) fn answers(&self, all: &mut Vec<Answer>) {
        let table = self.table.place().cast_const();
        all.push(Answer::behind("hcreate", hcreate_r as *const c_void, 1, table));
        all.push(Answer::behind("hsearch", hsearch as *const c_void, 3, table));
        all.push(Answer::behind("hdestroy", hdestroy_r as *const c_void, 0, table));
        let own = &raw const *self;
        all.push(Answer::behind("re_comp", re_comp as *const c_void, 1, own));
        all.push(Answer::behind("re_exec", re_exec as *const c_void, 1, own));
        all.push(Answer::behind("re_set_syntax", set_syntax as *const c_void, 1, own));
        all.push(Answer::behind("re_compile_pattern", compile as *const c_void, 3, own));
        all.push(Answer::variable("re_syntax_options", &self.syntax));
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // SAFETY: nobody uses the domain's state any more.
        unsafe {
            hdestroy_r(self.table.place());
            if let Some(expression) = &mut *self.expression.place() {
                libc::regfree(&mut **expression);
            }
        }
    }
}

/// `hsearch(entry, action)`.
///
/// # Safety
/// As hsearch(3). Called through its thunk.
unsafe extern "C" fn hsearch(
    entry: SearchEntry,
    action: c_int,
    table: *mut Table,
) -> *mut SearchEntry {
    let mut found = ptr::null_mut();
    // SAFETY: the caller's promise, and the thunk's state.
    unsafe { hsearch_r(entry, action, &mut found, table) };
    found
}

/// `re_compile_pattern(text, size, expression)`.
///
/// # Safety
/// As re_compile_pattern(3). Called through its thunk.
unsafe extern "C" fn compile(
    text: *const c_char,
    size: usize,
    expression: *mut libc::regex_t,
    own: &Tables,
) -> *const c_char {
    let _turn = COMPILING.lock();
    // SAFETY: the caller's promise. Other domains and this one change the variable here alone.
    unsafe {
        let before = re_syntax_options;
        re_syntax_options = *own.syntax.place();
        let problem = re_compile_pattern(text, size, expression);
        re_syntax_options = before;
        problem
    }
}

/// `re_set_syntax(syntax)`.
///
/// # Safety
/// By one thread of a program at a time. Called through its thunk.
unsafe extern "C" fn set_syntax(syntax: c_ulong, own: &Tables) -> c_ulong {
    // SAFETY: the caller's promise.
    unsafe { own.syntax.place().replace(syntax) }
}

/// `re_comp(text)` (posix/regcomp.c). The C library has the words for an expression that is missing.
///
/// # Safety
/// As re_comp(3). Called through its thunk.
unsafe extern "C" fn re_comp(text: *const c_char, own: &Tables) -> *const c_char {
    // SAFETY: the caller's promise. Of numbers and pointers zero is a value, that of an expression before it is compiled.
    unsafe {
        let known = &mut *own.expression.place();
        if text.is_null() {
            let missing = c"No previous regular expression".as_ptr();
            return if known.is_some() { ptr::null() } else { missing };
        }
        if let Some(expression) = known {
            libc::regfree(&mut **expression);
        }
        let expression = known.insert(Box::new(std::mem::zeroed()));
        compile(text, CStr::from_ptr(text).count_bytes(), &mut **expression, own)
    }
}

/// `re_exec(text)`.
///
/// # Safety
/// As re_exec(3). Called through its thunk.
unsafe extern "C" fn re_exec(text: *const c_char, own: &Tables) -> c_int {
    // SAFETY: the caller's promise; the expression was compiled.
    unsafe {
        let Some(expression) = &*own.expression.place() else { return 0 };
        (libc::regexec(&**expression, text, 0, ptr::null_mut(), 0) == 0).into()
    }
}
