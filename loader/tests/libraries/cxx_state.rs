//! The state that C++ keeps for a program: each domain has its own.

use std::ffi::c_int;
use std::path::PathBuf;

use hydrozoa_loader::Library;
use hydrozoa_testkit::libraries::{Workshop, function};

use crate::replicas::{domains, open_in};

/// Each state has a function that changes it by a number, and one that reads it.
const STATES: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <locale>
#include <memory_resource>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

static std::ostringstream caught;
static int own;

extern "C" int set_buffer(int number) { own = number; std::cout.rdbuf(caught.rdbuf()); return 0; }
extern "C" int buffer(int) { caught.str(""); std::cout << own; return std::atoi(caught.str().c_str()); }

extern "C" int set_format(int number) { std::cerr << std::hex << std::setprecision(number); return 0; }
extern "C" int format(int) {
    return int(std::cerr.precision()) + ((std::cerr.flags() & std::ios::hex) ? 100 : 0);
}

extern "C" int set_word(int number) {
    own = std::ios_base::xalloc();
    std::cin.iword(own) = number;
    return own;
}
extern "C" int word(int) { return int(std::cin.iword(own)); }

static void end() {}
static int number_of_end;
extern "C" int set_terminate(int number) { number_of_end = number; std::set_terminate(end); return 0; }
extern "C" int terminate(int) { return std::get_terminate() == end ? number_of_end : 0; }

static int asked, number_of_handler;
static void nothing_left() { asked += number_of_handler; std::set_new_handler(nullptr); }
extern "C" int set_new(int number) { number_of_handler = number; std::set_new_handler(nothing_left); return 0; }
extern "C" int ask_for_much(int) {
    volatile std::size_t much = std::size_t(1) << 50;
    // Compilers leave out an allocation that nobody sees.
    try { char* volatile place = new char[much]; delete[] place; } catch (const std::bad_alloc&) { return asked; }
    return -1;
}

struct Resource : std::pmr::memory_resource {
    int number = 0;
    void* do_allocate(std::size_t size, std::size_t) override { return std::malloc(size + number); }
    void do_deallocate(void* block, std::size_t, std::size_t) override { std::free(block); }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};
static Resource resource;
extern "C" int set_resource(int number) {
    resource.number = number;
    std::pmr::set_default_resource(&resource);
    return 0;
}
extern "C" int default_resource(int) {
    return std::pmr::get_default_resource() == &resource ? resource.number : 0;
}

struct Point : std::numpunct<char> {
    char point;
    explicit Point(int number) : point(char('A' + number)) {}
    char do_decimal_point() const override { return point; }
};
extern "C" int set_locale(int number) {
    std::locale::global(std::locale(std::locale(), new Point(number)));
    return 0;
}
extern "C" int locale(int) {
    std::ostringstream text;
    text << 0.5;
    return text.str()[1] == '.' ? 0 : text.str()[1] - 'A';
}

struct Marked : std::runtime_error { using std::runtime_error::runtime_error; };
extern "C" int caught_by_type(int number) {
    try {
        try { throw Marked(std::to_string(number)); }
        catch (...) { std::throw_with_nested(std::logic_error("outer")); }
    } catch (const std::exception& outer) {
        try { std::rethrow_if_nested(outer); }
        catch (const std::runtime_error& inner) { return std::atoi(inner.what()) + std::uncaught_exceptions(); }
    }
    return -1;
}
"#;

fn library(shop: &Workshop) -> PathBuf {
    shop.build("libstates++.so", STATES, &["-std=c++17"])
}

fn ask(library: &Library, name: &str, number: c_int) -> c_int {
    // SAFETY: the library declares all of its functions so.
    let function: extern "C" fn(c_int) -> c_int = unsafe { function(library, name) };
    function(number)
}

/// The functions that change a state and tell it, and what is told at first.
const CHANGES: [(&str, &str, c_int); 7] = [
    // The third writes a number that nobody reads, to the process's output.
    ("set_buffer", "buffer", 0),
    ("set_format", "format", 6),
    ("set_word", "word", 0),
    ("set_terminate", "terminate", 0),
    ("set_new", "ask_for_much", 0),
    ("set_resource", "default_resource", 0),
    ("set_locale", "locale", 0),
];

#[test]
fn a_domain_has_its_own_streams_handlers_default_resource_and_locale() {
    for (change, tell, at_first) in CHANGES {
        let shop = Workshop::new(change);
        let libraries = open_in(&domains(3), &library(&shop));
        let changed = [5, 7].map(|number| ask(&libraries[number as usize / 7], change, number));
        assert_eq!(changed[0], changed[1], "{change}: both began with the same");
        let told: Vec<_> = libraries.iter().map(|library| ask(library, tell, 0)).collect();
        let added = if tell == "format" { 100 } else { 0 };
        assert_eq!(told, [5 + added, 7 + added, at_first], "{change}");
    }
}

#[test]
fn exceptions_are_thrown_and_caught_in_all_domains_at_once() {
    let shop = Workshop::new("caught-at-once");
    let libraries = open_in(&domains(4), &library(&shop));
    std::thread::scope(|scope| {
        for (library, number) in libraries.iter().zip(1..) {
            scope.spawn(move || {
                for _ in 0..5000 {
                    assert_eq!(ask(library, "caught_by_type", number), number);
                }
            });
        }
    });
}
