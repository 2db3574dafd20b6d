//! Exceptions that guarded calls have stopped: their types and texts, and their release.
//!
//! The C++ runtime that threw an exception is found by its clean-up function. So it need not be the
//! program's own.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::image::symbols::Name;
use crate::sys::guard::{Exception, UnwindException};
use crate::system::SYSTEM;
use crate::visible::publish;

/// The class of libstdc++'s exceptions (libstdc++-v3/libsupc++/unwind-cxx.h), but for the last byte, which is 1
/// in one that `std::rethrow_exception` has thrown.
const CXX: u64 = u64::from_be_bytes(*b"GNUCC++\0");
const DEPENDENT: u64 = CXX | 1;

/// Bytes from `__cxa_exception::exceptionType`, or `__cxa_dependent_exception::primaryException`, to the
/// `_Unwind_Exception` that ends both records (the same file; 64-bit machines).
const BEFORE_HEADER: usize = 80;
/// Size of `_Unwind_Exception`, behind which the thrown object lies.
const HEADER: usize = 32;

/// The function that frees the blocks of the runtime that threw an exception.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);

/// Ends `exception`. Returns its type and, if it derives from `std::exception` by single inheritance, the text of
/// its `what()`.
pub(crate) fn consume(exception: Exception, free: Free) -> String {
    let header = exception.0.as_ptr();
    // SAFETY: the unwinder gave the address of this record, which lives until it is freed below.
    let UnwindException { class, cleanup } = unsafe { ptr::read(header) };
    let runtime = |name: &'static str| symbol_beside(cleanup, name);
    let text = match class {
        // SAFETY: the class says that libstdc++ has made the record.
        CXX | DEPENDENT => unsafe { describe(header, class == DEPENDENT, &runtime, free) },
        other => {
            format!("an exception of class {:?}", String::from_utf8_lossy(&other.to_be_bytes()))
        }
    };
    let caught = (class | 1 == DEPENDENT)
        .then(|| Some((runtime("__cxa_begin_catch")?, runtime("__cxa_end_catch")?)))
        .flatten();
    match caught {
        // As a catch clause: the thread's count of uncaught exceptions is right again.
        // SAFETY: functions of the runtime that threw it, with the Itanium C++ ABI's signatures.
        Some((begin, end)) => unsafe {
            let begin: unsafe extern "C" fn(*mut UnwindException) -> *mut c_void =
                std::mem::transmute(begin);
            let end: unsafe extern "C-unwind" fn() = std::mem::transmute(end);
            begin(header);
            end();
        },
        None => exception.delete(),
    }
    text
}

/// The function `name` of the object that holds `address`.
fn symbol_beside(address: usize, name: &str) -> Option<usize> {
    let name = Name::new(name.as_bytes());
    if let Some(replica) = publish::find(address) {
        let (_, symbol) = replica.image.symbols.lookup(name, None, true)?;
        return Some(replica.symbol_address(&symbol));
    }
    let object = SYSTEM.by_address(address)?;
    let (_, symbol) = object.symbols.lookup(name, None, true)?;
    Some(object.base.wrapping_add(symbol.value as usize))
}

/// # Safety
/// `header` ends a `__cxa_exception` of libstdc++, or a `__cxa_dependent_exception`.
unsafe fn describe(
    header: *mut UnwindException,
    dependent: bool,
    runtime: &dyn Fn(&'static str) -> Option<usize>,
    free: Free,
) -> String {
    // SAFETY: the caller's promise. The thrown object lies behind the header of its primary exception.
    unsafe {
        let field = |header: usize| ptr::read((header - BEFORE_HEADER) as *const usize);
        let (object, kind) = if dependent {
            let object = field(header as usize);
            (object, field(object - HEADER))
        } else {
            (header as usize + HEADER, field(header as usize))
        };
        let kind = TypeInfo(kind as *const [usize; 3]);
        let mut text = demangled(kind.name(), runtime("__cxa_demangle"), free);
        if let Some(what) = kind.derives_from_exception().then(|| what(object)) {
            text.push_str(": ");
            text.push_str(&what);
        }
        text
    }
}

/// A `std::type_info`: its virtual table, its name, and in derived classes its base (Itanium C++ ABI, 2.9.5).
struct TypeInfo(*const [usize; 3]);

impl TypeInfo {
    /// The mangled name.
    ///
    /// # Safety
    /// This and the other methods: it is the address of a type's information.
    unsafe fn name<'a>(&self) -> &'a CStr {
        // SAFETY: the caller's promise; names end with NUL.
        let name = unsafe { CStr::from_ptr((*self.0)[1] as *const c_char) };
        // A star says that only the address identifies the type.
        name.to_bytes_with_nul()
            .strip_prefix(b"*")
            .and_then(|name| CStr::from_bytes_with_nul(name).ok())
            .unwrap_or(name)
    }

    unsafe fn derives_from_exception(&self) -> bool {
        let mut kind = TypeInfo(self.0);
        loop {
            // SAFETY: the caller's promise. The word before a virtual table's address is the information of
            // the class that the table is for; the class with one public base has the base behind its name.
            unsafe {
                if kind.name() == c"St9exception" {
                    return true;
                }
                let table = (*kind.0)[0] as *const usize;
                let class = TypeInfo(table.sub(1).read() as *const [usize; 3]);
                if class.name() != c"N10__cxxabiv120__si_class_type_infoE" {
                    return false;
                }
                kind = TypeInfo((*kind.0)[2] as *const [usize; 3]);
            }
        }
    }
}

/// `what()` of a `std::exception`.
///
/// # Safety
/// `object` is the address of one.
unsafe fn what(object: usize) -> String {
    // SAFETY: the caller's promise. `what` is the virtual function behind both destructors, and its text ends
    // with NUL and lives as long as the object.
    unsafe {
        let table = *(object as *const *const usize);
        let what: unsafe extern "C" fn(usize) -> *const c_char = std::mem::transmute(*table.add(2));
        CStr::from_ptr(what(object)).to_string_lossy().into_owned()
    }
}

/// The type's name in C++, as the runtime's `__cxa_demangle` gives it.
fn demangled(name: &CStr, demangle: Option<usize>, free: Free) -> String {
    type Demangle =
        unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    let text = demangle.and_then(|demangle| {
        // SAFETY: the Itanium C++ ABI's function of this name (3.4). It allocates the result by malloc.
        unsafe {
            let demangle: Demangle = std::mem::transmute(demangle);
            let text = demangle(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            let copied = (!text.is_null()).then(|| CString::from(CStr::from_ptr(text)));
            free(text.cast());
            copied
        }
    });
    text.as_deref().unwrap_or(name).to_string_lossy().into_owned()
}
