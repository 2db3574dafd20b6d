//! The folder with compiled code of modules that are imported by a profile.

use hydrozoa::{Imports, Pool, Session};
use hydrozoa_testkit::alone::alone_with;
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const MODULES: usize = 240;

/// The names and the bytes of what the folder has.
fn entries(cache: &Path) -> (Vec<String>, u64) {
    let folder = fs::read_dir(cache.join("hydrozoa/imports")).unwrap();
    let entries: Vec<_> = folder.map(|entry| entry.unwrap()).collect();
    let bytes = entries.iter().map(|entry| entry.metadata().unwrap().len()).sum();
    (entries.iter().map(|entry| entry.file_name().into_string().unwrap()).collect(), bytes)
}

/// A time of days ago for all entries.
fn age(cache: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    for name in entries(cache).0 {
        let file = File::options().write(true).open(cache.join("hydrozoa/imports").join(name));
        file.unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
    }
}

#[test]
fn kept_code_stays_within_its_limit_and_what_is_used_stays() {
    let cache = TempDir::with_prefix("imports-cache-").unwrap();
    let variables = [("XDG_CACHE_HOME", cache.path().as_os_str().to_owned())];
    alone_with(Duration::from_secs(120), &variables, || {
        let cache = std::env::var_os("XDG_CACHE_HOME").unwrap();
        let cache = Path::new(&cache);
        let folder = TempDir::with_prefix("imports-").unwrap();
        fs::write(folder.path().join("target.py"), "value = 42\n").unwrap();
        for number in 0..MODULES {
            let code = "from target import value\ndef read(): return value\n";
            fs::write(folder.path().join(format!("m{number}.py")), code).unwrap();
        }
        let builder = Pool::builder().interpreters(1).path(folder.path());
        let import = |session: &Session, limit: u64, first: usize, end: usize| {
            let code = format!(
                "from _hydrozoa import code_cache\ncode_cache.LIMIT = {limit}\n\
                 for number in range({first}, {end}):\n    assert __import__(f'm{{number}}').read() == 42\n"
            );
            session.run(&code, "program.py").map(drop)
        };
        let record = |pool: &Pool| import(&pool.acquire()?, u64::MAX, 0, 1);
        let profile = builder.record_imports(record).unwrap();
        // `target`, which stays as it is, and `m0`.
        let (used, _) = entries(cache);
        assert_eq!(used.len(), 2);
        let all: Vec<String> = (0..MODULES).map(|number| format!("+ m{number}\n")).collect();
        let profile = format!("{profile}{}", all.concat()).parse().unwrap();
        let builder = builder.imports(Imports::Profile(profile));

        let start = || builder.clone().build().unwrap().acquire().unwrap();
        import(&start(), u64::MAX, 0, 100).unwrap();
        let (old, bytes) = entries(cache);
        assert_eq!(old.len(), 101);
        age(cache, 9);
        import(&start(), u64::MAX, 0, 1).unwrap();
        // Room for 200 entries. The last interpreter writes 140, and looks at the first and at the 129th of them.
        let limit = bytes / 101 * 200;
        import(&start(), limit, 100, MODULES).unwrap();
        let (left, bytes) = entries(cache);
        assert!(bytes <= limit, "{bytes} bytes, and {limit} is the limit");
        assert!(left.len() > 140, "{} entries are left", left.len());
        for name in &used {
            assert!(left.contains(name), "an entry that was used is gone");
        }
    });
}
