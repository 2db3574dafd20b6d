//! Look-ups of "the process" from inside an interpreter: they find its own libpython, and what it has loaded. The
//! tests run on every Python of the machine.

mod pythons;

use hydrozoa::Session;
use hydrozoa_testkit::libraries::Workshop;
use pythons::pools;

/// Asks in every way that the C library has. `PyLong_Type` is data: its address is the identity of `int`.
const LIBRARY: &str = "
    #define _GNU_SOURCE
    #include <dlfcn.h>
    extern void *PyLong_FromLong(long);
    void *makes_it_the_interpreter_s_own(void) { return PyLong_FromLong(1); }
    #include <link.h>
    #include <string.h>
    void *by_default(const char *name) { return dlsym(RTLD_DEFAULT, name); }
    void *by_null(const char *name) {
        void *program = dlopen(0, RTLD_NOW);
        void *found = dlsym(program, name);
        dlclose(program);
        return found;
    }
    static void *kept;
    void *by_kept_null(const char *name) {
        if (!kept) kept = dlopen(0, RTLD_LAZY | RTLD_GLOBAL);
        return dlsym(kept, name);
    }
    void *by_handle(void *handle, const char *name) { return dlsym(handle, name); }
    const char *owner(void *address) {
        Dl_info info;
        return dladdr(address, &info) ? info.dli_fname : \"\";
    }
    struct search { const char *name; void *base; };
    static int look(struct dl_phdr_info *info, size_t size, void *data) {
        struct search *search = data;
        if (!info->dlpi_name || !strstr(info->dlpi_name, search->name)) return 0;
        search->base = (void *)(info->dlpi_addr + info->dlpi_phdr[0].p_vaddr);
        return 1;
    }
    void *first_listed(const char *name) {
        struct search search = { name, 0 };
        dl_iterate_phdr(look, &search);
        return search.base;
    }
    void *base_of(void *address) {
        Dl_info info;
        return dladdr(address, &info) ? info.dli_fbase : 0;
    }";

const CODE: &str = "
import ctypes
import ctypes.util
import os
import sys
import sysconfig

def answers(path):
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    lib = ctypes.CDLL(path)
    def function(name, *types, result=pointer):
        found = getattr(lib, name)
        found.argtypes, found.restype = types, result
        return found
    name = b'PyLong_Type'
    own = {}
    for way in ('by_default', 'by_null', 'by_kept_null'):
        own[way] = function(way, text)(name)
    by_handle = function('by_handle', pointer, text)
    program = ctypes.CDLL(None)
    own['handle of CDLL(None)'] = by_handle(program._handle, name)
    own['handle of pythonapi'] = by_handle(ctypes.pythonapi._handle, name)
    own_library = function('owner', pointer, result=text)(id(int)).decode()
    libraries = {
        'CDLL(None)': program,
        'PyDLL(None)': ctypes.PyDLL(None),
        'pythonapi': ctypes.pythonapi,
        'soname': ctypes.CDLL(sysconfig.get_config_var('INSTSONAME')),
        'path': ctypes.CDLL(own_library),
    }
    for way, library in libraries.items():
        own[way] = ctypes.addressof(ctypes.c_char.in_dll(library, name.decode()))
    wrong = {way: found for way, found in own.items() if found != id(int)}
    assert not wrong, (hex(id(int)), wrong)
    assert 'libpython' in own_library, own_library
    base = function('base_of', pointer)(id(int))
    listed = function('first_listed', text)(os.path.basename(own_library).encode())
    assert listed == base, (hex(listed or 0), hex(base))
    return id(int)
";

fn answers(session: &Session, path: &str) -> usize {
    let answers = session.run(CODE, "answers.py").unwrap().getattr("answers").unwrap();
    answers.call((path,)).unwrap().extract().unwrap()
}

#[test]
fn a_library_of_an_interpreter_that_asks_for_the_process_gets_the_interpreter() {
    let shop = Workshop::new("lookups");
    let path = shop.build("libasks.so", LIBRARY, &[]);
    for pool in pools(3) {
        let path = path.to_str().unwrap();
        let ask = |index| pool.acquire_on(index).map(|session| answers(&session, path)).unwrap();
        let mut identities: Vec<usize> = std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|index| scope.spawn(move || ask(index)));
            threads.map(|thread| thread.join().unwrap()).to_vec()
        });
        identities.sort_unstable();
        identities.dedup();
        assert_eq!(identities.len(), 3);
    }
}
