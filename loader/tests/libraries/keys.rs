//! Keys of thread-specific data: domains have more than glibc, and each domain has its own.

use std::time::Duration;

use hydrozoa_loader::{Loader, OpenFlags};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::{Workshop, open};

use crate::replicas::call;

/// `check` returns 0, or the line of the failed check. Its thread has values of all keys, some of C11.
const SOURCE: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <dlfcn.h>
static pthread_key_t keys[300];
static tss_t other;
static int ended, wrong;
#define want(condition) do { if (!(condition) && !wrong) wrong = __LINE__; } while (0)
static void gone(void *argument) { __atomic_add_fetch(&ended, (int)(long)argument, __ATOMIC_SEQ_CST); }
static void *run(void *unused)
{
    for (long i = 0; i < 300; i++) {
        want(!pthread_getspecific(keys[i]));
        want(!pthread_setspecific(keys[i], (void *)(i + 1)));
    }
    want(!tss_get(other) && tss_set(other, (void *)100000) == thrd_success);
    return 0;
}
int check(void)
{
    for (int i = 0; i < 300; i++) {
        want(!pthread_key_create(&keys[i], i % 2 ? gone : 0));
        want(!pthread_getspecific(keys[i]) && !pthread_setspecific(keys[i], &keys[i]));
    }
    want(tss_create(&other, gone) == thrd_success);
    pthread_t thread;
    want(!pthread_create(&thread, 0, run, 0) && !pthread_join(thread, 0));
    /* 2 + 4 + ... + 300 */
    want(ended == 150 * 151 + 100000);
    void *(*found)(pthread_key_t) = dlsym(RTLD_DEFAULT, "pthread_getspecific");
    void *(*in_libc)(pthread_key_t) = dlsym(dlopen("libc.so.6", RTLD_NOW), "pthread_getspecific");
    for (int i = 0; i < 300; i++)
        want(pthread_getspecific(keys[i]) == &keys[i] && found(keys[i]) == &keys[i] && in_libc(keys[i]) == &keys[i]);
    want(!tss_get(other));
    pthread_key_t deleted = keys[7];
    want(!pthread_key_delete(deleted) && pthread_key_delete(deleted) == EINVAL);
    want(!pthread_getspecific(deleted) && pthread_setspecific(deleted, &deleted) == EINVAL);
    want(!pthread_key_create(&keys[7], 0) && !pthread_getspecific(keys[7]));
    return wrong;
}
"#;

#[test]
fn domains_have_keys_when_those_of_glibc_are_used_up() {
    alone(Duration::from_secs(60), || {
        let shop = Workshop::new("keys");
        let path = shop.build("libkeys.so", SOURCE, &["-pthread"]);
        let loader = Loader::builder().build().unwrap();
        let domains: Vec<_> =
            (0..8).map(|number| loader.domain(&format!("d{number}")).build().unwrap()).collect();
        let libraries: Vec<_> =
            domains.iter().map(|domain| open(domain, &path, OpenFlags::NOW).unwrap()).collect();
        // The first call makes glibc's key of the loader.
        assert_eq!(call(&libraries[0], "check"), 0, "the line in the source");
        let mut key = 0;
        // SAFETY: the place is valid, and no destructor is given.
        while unsafe { libc::pthread_key_create(&mut key, None) } == 0 {}
        for library in &libraries[1..] {
            assert_eq!(call(library, "check"), 0, "the line in the source");
        }
        drop(libraries);
        for domain in domains {
            // SAFETY: no code of the domain's library runs, and nothing uses its data.
            unsafe { domain.retire(|| ()) };
        }
    });
}
