//! Libraries and files in a container: mapped from where they lie, found below an enclosure's root, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use hydrozoa_loader::{
    Container, Enclosure, FileTable, OpenFlags, by_names, enclose, provide_part,
};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, mappings, open};

use crate::replicas::{call, domains, open_in};

const PAGE: usize = 65_536;

/// A file with these parts, each at a page's start behind bytes that belong to none. Returns it with the parts' places.
fn packed(path: &Path, parts: &[Vec<u8>]) -> Vec<std::ops::Range<usize>> {
    let mut file = b"bytes of something else".to_vec();
    let mut places = Vec::new();
    for part in parts {
        file.resize(file.len().next_multiple_of(PAGE), 0xcc);
        places.push(file.len()..file.len() + part.len());
        file.extend(part);
    }
    fs::write(path, file).unwrap();
    places
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_library_in_a_container_is_mapped_from_there_by_each_replica() {
    alone(PATIENCE, || {
        let shop = Workshop::new("container");
        let counts =
            shop.build("libcounts.so", "static int n; int next(void) { return ++n; }", &[]);
        let asks = shop.build(
            "libasks.so",
            "int next(void); int twice(void) { next(); return next(); }",
            &["-Wl,-rpath,$ORIGIN", counts.to_str().unwrap()],
        );
        let file = shop.path("container");
        let places = packed(&file, &[fs::read(&counts).unwrap(), fs::read(&asks).unwrap()]);
        let container = Container::open(&file).unwrap();
        let inside = |name: &str| PathBuf::from("/<a container of a test>/lib").join(name);
        for (name, place) in ["libcounts.so", "libasks.so"].into_iter().zip(&places) {
            provide_part(&inside(name), &container, place.clone()).unwrap();
            // Once more, as each opening of a container does.
            provide_part(&inside(name), &container, place.clone()).unwrap();
        }
        assert!(provide_part(&inside("libcounts.so"), &container, places[1].clone()).is_err());
        let beyond = container.bytes().len()..container.bytes().len() + 1;
        assert!(provide_part(&inside("libother.so"), &container, beyond).is_err());
        let within = places[0].start + 8..places[0].end;
        assert!(provide_part(&inside("libother.so"), &container, within).is_err());

        let before = descriptors();
        let libraries = open_in(&domains(2), &inside("libasks.so"));
        assert!(
            libraries.iter().all(|library| call(library, "twice") == 2),
            "each has a state of its own"
        );
        assert_eq!(descriptors(), before, "a container has one descriptor");
        let executable = mappings(&file).iter().filter(|line| line.contains(" r-xp ")).count();
        assert_eq!(executable, 4, "two libraries in two domains: {:#?}", mappings(&file));
    });
}

/// The bytes of a table at `offset` of its container: files by path with their places there, and directories.
fn table(offset: usize, rows: &[(&str, Option<std::ops::Range<usize>>)]) -> Vec<u8> {
    let mut rows = rows.to_vec();
    rows.sort_by(|one, other| by_names(one.0.as_bytes(), other.0.as_bytes()));
    let mut names_at = offset + 8 + 32 * rows.len();
    let mut bytes = (rows.len() as u64).to_le_bytes().to_vec();
    let mut names: Vec<u8> = Vec::new();
    for (path, place) in rows {
        bytes.extend((names_at as u64).to_le_bytes());
        bytes.extend((path.len() as u32).to_le_bytes());
        bytes.extend(u32::from(place.is_none()).to_le_bytes());
        let place = place.unwrap_or(0..0);
        bytes.extend((place.start as u64).to_le_bytes());
        bytes.extend((place.len() as u64).to_le_bytes());
        names.extend(path.as_bytes());
        names_at += path.len();
    }
    bytes.extend(names);
    bytes
}

const READER: &str = r#"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define ROOT "/<an enclosure of a test>"
int reads(void) {
    char text[16] = {0};
    int file = open(ROOT "/lib/../data/words", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, 15) != 5 || strcmp(text, "hello")) return 1;
    if (write(file, "x", 1) != -1) return 2;
    struct stat status;
    if (fstat(file, &status) || status.st_size != 5) return 3;
    close(file);
    FILE *stream = fopen(ROOT "/data/words", "r");
    if (!stream || !fgets(text, 16, stream) || strcmp(text, "hello")) return 4;
    fclose(stream);
    if (stat(ROOT "/data/words", &status) || !S_ISREG(status.st_mode) || status.st_size != 5) return 5;
    if (stat(ROOT "/data", &status) || !S_ISDIR(status.st_mode)) return 6;
    if (stat(ROOT "/none", &status) == 0 || errno != ENOENT) return 7;
    if (stat(ROOT "/data/words/x", &status) == 0 || errno != ENOTDIR) return 8;
    if (open(ROOT "/data/words", O_RDWR) != -1 || errno != EROFS) return 9;
    if (access(ROOT "/data/words", R_OK) || !access(ROOT "/data/words", W_OK)) return 10;
    DIR *directory = opendir(ROOT "/data");
    int count = 0, found = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory)); count++)
        found |= !strcmp(entry->d_name, "words") && entry->d_type == DT_REG;
    if (count != 3 || !found || closedir(directory)) return 11;
    directory = opendir("/proc/self");
    if (!directory || !readdir(directory) || closedir(directory)) return 12;
    return 0;
}
int loads(void) { return dlopen("libm.so.6", RTLD_NOW) != 0; }
int finds_the_machine_s(void) { return dlopen(MACHINE, RTLD_NOW) != 0 || dlopen("libof_the_machine.so", RTLD_NOW) != 0; }
int absent(void);
int works_without_it(void) { return 5; }
int needs_it(void) { return absent(); }
"#;

#[test]
fn code_of_an_enclosure_finds_what_is_inside_and_nothing_of_the_machine() {
    alone(PATIENCE, || {
        let shop = Workshop::new("enclosure");
        let other = shop.build("libof_the_machine.so", "int other(void) { return 1; }", &[]);
        let absent = shop.build("libabsent.so", "int absent(void) { return 1; }", &[]);
        let machine = format!("-DMACHINE=\"{}\"", other.display());
        // Its RUNPATH names the folder on this machine where both lie.
        let runpath = format!("-Wl,-rpath,{}", other.parent().unwrap().display());
        let reader =
            shop.build("libreader.so", READER, &[&machine, &runpath, absent.to_str().unwrap()]);
        fs::remove_file(&absent).unwrap();
        let file = shop.path("application");
        let parts = [fs::read(&reader).unwrap(), b"hello".to_vec()];
        let places = packed(&file, &parts);
        let table_at = places[1].end.next_multiple_of(PAGE);
        let rows =
            [("", None), ("data", None), ("data/words", Some(places[1].clone())), ("lib", None)];
        let last = packed(&file, &[&parts[..], &[table(table_at, &rows)]].concat())[2].clone();
        let container = Container::open(&file).unwrap();
        let root = PathBuf::from("/<an enclosure of a test>");
        let path = root.join("lib/libreader.so");
        provide_part(&path, &container, places[0].clone()).unwrap();
        enclose(Enclosure {
            libraries: root.join("lib"),
            root,
            machine: vec!["libm.so".to_owned(), "libc.so".to_owned()],
            absent: vec!["libabsent.so".to_owned()],
            allowed: Vec::new(),
            files: Some(FileTable::new(&container, last).unwrap()),
        })
        .unwrap();
        let library = open(&domains(1)[0], &path, OpenFlags::NOW).unwrap();
        assert_eq!(call(&library, "reads"), 0);
        assert_eq!(call(&library, "loads"), 1, "glibc's libraries are the machine's");
        assert_eq!(call(&library, "finds_the_machine_s"), 0);
        assert_eq!(call(&library, "works_without_it"), 5);
    });
}
