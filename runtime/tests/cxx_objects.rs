//! C++ objects of an interpreter's libraries: whoever frees them, and what is left of them at its end.

mod cycling;
mod pythons;

use cycling::{Taken, patience, while_another_serves};
use hydrozoa::{Builder, Pool};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::Workshop;
use pythons::{builders, pools};
use std::path::Path;

/// Objects that libstdc++, the C library and others of its own threads free, and some that nobody frees.
const SOURCE: &str = r#"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" int frees_what_libstdcxx_made() {
    std::string text(1000, 'a');
    for (int i = 0; i < 100; ++i) text += std::to_string(i) + text.substr(0, 40);
    std::stringstream stream;
    stream << text << std::string(5000, 'b');
    std::string line = stream.str();
    std::filesystem::path path = std::filesystem::path("/usr/lib") / std::string(200, 'c') / "d";
    for (auto& part : path) line += part.string();
    return int(line.size() - text.size());
}
extern "C" int frees_by_the_c_library() {
    char* first = new char[100];
    char* second = new char[100];
    std::memset(second, 7, 100);
    std::free(first);
    second = static_cast<char*>(std::realloc(second, 20000));
    int sum = 0;
    for (int i = 0; i < 100; ++i) sum += second[i];
    std::free(second);
    operator delete(std::malloc(10));
    return sum;
}
extern "C" int reports_that_there_is_no_memory() {
    int caught = 0;
    volatile std::size_t much = std::size_t(1) << 46;
    try { std::unique_ptr<char[]> block(new char[much]); } catch (const std::bad_alloc&) { caught = 1; }
    return caught * 10 + (new (std::nothrow) char[much] == nullptr);
}
extern "C" int frees_on_other_threads() {
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<std::map<int, std::string>>> maps(8);
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&maps, t] {
            maps[t] = std::make_unique<std::map<int, std::string>>();
            for (int i = 0; i < 3000; ++i) (*maps[t])[i] = std::string(i % 90, 'x');
        });
    for (auto& thread : threads) thread.join();
    threads.clear();
    std::size_t size = 0;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&maps, t] { maps[(t + 1) % 8].reset(); });
    for (auto& thread : threads) thread.join();
    for (auto& map : maps) size += map ? map->size() : 0;
    return int(size);
}
struct alignas(256) Wide { char bytes[256]; };
extern "C" int aligns() {
    auto wide = std::make_unique<Wide[]>(3);
    auto usual = std::make_unique<long double>();
    return int(reinterpret_cast<std::uintptr_t>(wide.get()) % 256)
        + int(reinterpret_cast<std::uintptr_t>(usual.get()) % alignof(long double));
}
static int asked;
static void give_up() { ++asked; std::set_new_handler(nullptr); }
extern "C" int has_a_handler() { return std::get_new_handler() != nullptr; }
extern "C" int sets_a_handler() { std::set_new_handler(give_up); return has_a_handler(); }
extern "C" int is_asked_for_much() {
    volatile std::size_t much = std::size_t(1) << 46;
    try { delete[] new char[much]; } catch (const std::bad_alloc&) { return asked; }
    return -1;
}
extern "C" int leaves_behind(int mebibytes) {
    static std::vector<char*> left;
    for (int i = 0; i < mebibytes * 1024; ++i) std::memset(left.emplace_back(new char[1024]), 1, 1024);
    return int(left.size());
}
"#;

fn library(shop: &Workshop) -> std::path::PathBuf {
    shop.build("libobjects++.so", SOURCE, &["-std=c++17", "-pthread"])
}

fn ask(pool: &Pool, path: &Path, call: &str) -> i64 {
    let session = pool.acquire().unwrap();
    let code = format!("import ctypes\nanswer = ctypes.CDLL({path:?}).{call}");
    session.run(&code, "ask.py").unwrap().getattr("answer").unwrap().extract().unwrap()
}

fn cycle(builder: &Builder, path: &Path) {
    let pool = builder.clone().build().unwrap();
    assert_eq!(ask(&pool, path, "leaves_behind(4)"), 4096);
}

#[test]
fn objects_are_freed_by_whoever_has_them() {
    alone(patience(), || {
        let shop = Workshop::new("objects");
        let path = library(&shop);
        for pool in pools(3) {
            for _ in 0..3 {
                // The next one asks another interpreter.
                let _other = pool.acquire().unwrap();
                assert_eq!(ask(&pool, &path, "frees_what_libstdcxx_made()"), 5000 + 208);
                assert_eq!(ask(&pool, &path, "frees_by_the_c_library()"), 700);
                assert_eq!(ask(&pool, &path, "reports_that_there_is_no_memory()"), 11);
                assert_eq!(ask(&pool, &path, "frees_on_other_threads()"), 0);
                assert_eq!(ask(&pool, &path, "aligns()"), 0);
            }
        }
    });
}

#[test]
fn an_interpreter_s_own_handler_is_asked_when_there_is_no_memory() {
    alone(patience(), || {
        let shop = Workshop::new("handler");
        let path = library(&shop);
        let pool = builders(2).next().unwrap().build().unwrap();
        let ask = |index: usize, call: &str| {
            let session = pool.acquire_on(index).unwrap();
            let answer = session.eval(&format!("__import__('ctypes').CDLL({path:?}).{call}"));
            answer.unwrap().extract::<i64>().unwrap()
        };
        assert_eq!(ask(0, "sets_a_handler()"), 1);
        assert_eq!([0, 1].map(|index| ask(index, "has_a_handler()")), [1, 0]);
        assert_eq!([1, 0].map(|index| ask(index, "is_asked_for_much()")), [0, 1]);
        assert_eq!(ask(0, "has_a_handler()"), 0);
    });
}

#[test]
fn what_libraries_leave_behind_ends_with_their_interpreter() {
    alone(patience(), || {
        let shop = Workshop::new("left");
        let path = library(&shop);
        let builder = builders(1).next().unwrap();
        while_another_serves(&builder, || {
            (0..4).for_each(|_| cycle(&builder, &path));
            let before = Taken::now();
            (0..16).for_each(|_| cycle(&builder, &path));
            Taken::now().assert_bounded(before, 16, 20 << 10);
        });
    });
}

#[test]
fn objects_count_for_the_interpreter_that_has_them() {
    alone(patience(), || {
        let shop = Workshop::new("counted");
        let path = library(&shop);
        let pool = builders(2).next().unwrap().build().unwrap();
        let mut taken = Vec::new();
        for mebibytes in [8, 2] {
            let session = pool.acquire().unwrap();
            let code = format!("import ctypes\nctypes.CDLL({path:?}).leaves_behind({mebibytes})");
            session.run(&code, "leaves.py").unwrap();
            taken.push(session.interpreter().clone());
            std::mem::forget(session);
        }
        for (interpreter, mebibytes) in taken.iter().zip([8, 2]) {
            let memory = interpreter.memory().unwrap();
            let bytes = mebibytes << 20..(mebibytes << 20) + (1 << 20);
            assert!(bytes.contains(&memory.native_heap), "{memory}");
            assert!(memory.private() > memory.native_heap, "{memory}");
        }
    });
}

#[test]
fn a_forked_child_takes_and_frees_objects_whatever_other_threads_did() {
    alone(patience(), || {
        let shop = Workshop::new("forked");
        let path = library(&shop);
        let pool = builders(1).next().unwrap().build().unwrap();
        let code = format!(
            "
import ctypes, os, threading
library = ctypes.CDLL({path:?})
stop = False
def work():
    while not stop: library.frees_on_other_threads()
thread = threading.Thread(target=work)
thread.start()
answer = 0
for _ in range(40):
    child = os.fork()
    if child == 0:
        os._exit(library.frees_what_libstdcxx_made() % 100)
    answer += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
stop = True
thread.join()
"
        );
        let session = pool.acquire().unwrap();
        let answer = session.run(&code, "fork.py").unwrap().getattr("answer").unwrap();
        assert_eq!(answer.extract::<i64>().unwrap(), 40 * 8);
    });
}
