//! Libraries whose load makes every kind of request to the kernel that loads make.

use std::ffi::c_int;
use std::path::PathBuf;

use hydrozoa_loader::{Class, Domain, Library, Loader, OpenFlags, Policy, Result};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// `libroot.so` needs `libmiddle.so`, which needs `libcommon.so` (the commons') and `libsystem.so` (the
/// system loader's).
pub struct Graph {
    pub root: PathBuf,
    /// Without symbolic links.
    pub directory: PathBuf,
    _shop: Workshop,
}

/// The environment variable that constructors write, in the one C library.
pub const RAN: &str = "HYDROZOA_TEST_CONSTRUCTED";

impl Graph {
    pub fn build(name: &str) -> Graph {
        let shop = Workshop::new(name);
        std::fs::create_dir_all(shop.path("empty")).unwrap();
        let search = ["-L{dir}", "-Wl,-rpath,$ORIGIN/empty:$ORIGIN"];
        let with = |more: &[&'static str]| [&search[..], more].concat();
        shop.build("libsystem.so", "int of_system(void) { return 1; }", &[]);
        shop.build("libcommon.so", "int n = 10; int *p = &n; int common(void) { return *p; }", &[]);
        shop.build(
            "libmiddle.so",
            "int common(void); int of_system(void);
             static volatile __thread int lazy = 100; static volatile __thread char zeroes[64];
             static int f1(void) { return 1000; }
             static int (*resolve(void))(void) { return f1; }
             int chosen(void) __attribute__((ifunc(\"resolve\")));
             // Text relocations: one that mapping writes, one that needs a resolver.
             int counter = 0;
             __asm__(\".text\\n.balign 8\\nin_text: .quad counter, chosen\\n\");
             extern int *const in_text[2] __attribute__((visibility(\"hidden\")));
             int middle(void) {
                 int (*function)(void) = (int (*)(void))in_text[1];
                 return common() + of_system() + lazy + zeroes[3] + function() + *in_text[0];
             }",
            &with(&["-l:libcommon.so", "-l:libsystem.so", "-Wl,-z,notext"]),
        );
        let root = shop.build(
            "libroot.so",
            "#include <stdlib.h>
             int middle(void); int nobody_has(void);
             static volatile __thread int fixed __attribute__((tls_model(\"initial-exec\"))) = 10000;
             static volatile char large[300000]; static int word;
             // More pages with relocations than are left to faults, one apart, and RELRO.
             struct { void *word; char rest[4088]; } many[20] = { [0 ... 19] = { &word } };
             __attribute__((aligned(65536))) char apart[65536] = \"a\";
             int *const constant = &word;
             __attribute__((constructor)) static void begin(void) { setenv(\"HYDROZOA_TEST_CONSTRUCTED\", \"root\", 1); word = 100000; }
             int call_it(int all) { return all ? nobody_has() : 0; }
             int root(void) { return middle() + fixed + *(int *)many[15].word + large[2] + *constant - *constant; }",
            &with(&["-l:libmiddle.so", "-Wl,-z,relro,-z,lazy"]),
        );
        let directory = root.parent().unwrap().canonicalize().unwrap();
        Graph { root, directory, _shop: shop }
    }

    pub fn loader(&self) -> Result<Loader> {
        let pattern = |name: &str| format!("{}/{name}", self.directory.display());
        let policy = Policy::default()
            .with(&pattern("*"), Class::Replicate, "it is under test")
            .with(&pattern("libcommon.so"), Class::Commons, "once for all")
            .with(&pattern("libsystem.so"), Class::System, "the system's");
        Loader::builder().policy(policy).build()
    }

    pub fn domain(&self) -> Domain {
        self.loader().unwrap().domain("under test").build().unwrap()
    }

    pub fn open(&self, domain: &Domain) -> Result<Library> {
        open(domain, &self.root, OpenFlags::LAZY)
    }
}

/// Whether the library behaves as its source says.
pub fn works(library: &Library) {
    // SAFETY: declared as `int root(void)`.
    let root: extern "C" fn() -> c_int = unsafe { function(library, "root") };
    assert_eq!(root(), 111_111);
    assert_eq!(std::env::var(RAN).as_deref(), Ok("root"));
}
