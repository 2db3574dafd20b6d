use super::super::{ARENAS, User, within};
use super::{fill, free, give_back, heap, is_filled};
use hydrozoa_loader::Loader;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::thread;
use std::time::{Duration, Instant};

/// The signal that ends a child in which `action` is called, and what it writes to standard error.
fn end(action: impl FnOnce()) -> (i32, String) {
    // SAFETY: the descriptors are new. The child ends here, whatever the action does.
    unsafe {
        let mut pipe = [0; 2];
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
            libc::dup2(pipe[1], libc::STDERR_FILENO);
            libc::alarm(30);
            action();
            libc::_exit(0);
        }
        libc::close(pipe[1]);
        let (mut text, mut status) = (String::new(), 0);
        File::from_raw_fd(pipe[0]).read_to_string(&mut text).unwrap();
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        let signal = if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 };
        (signal, text)
    }
}

#[track_caller]
fn ends_with(words: &str, action: impl FnOnce()) {
    let (signal, text) = end(action);
    assert_eq!(signal, libc::SIGABRT, "{words}: {text}");
    assert!(text.contains(" is damaged: the block at 0x") && text.contains(words), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn blocks_that_are_freed_twice_or_written_over_end_the_program() {
    let heap = heap();
    let take = |size| heap.allocate(User::Libraries, size);
    // Of the thread's own blocks, of those that an arena has, and a large one.
    let twice = " is freed a second time";
    for (size, words) in [(40, twice), (5000, twice), (40 << 20, " is none")] {
        ends_with(words, || {
            let (block, _behind_it) = (take(size), take(size));
            free(heap, block);
            free(heap, block);
        });
    }
    for size in [40, 1000, 5000, 50_000] {
        ends_with(" or something wrote over its head", || {
            let [first, second, _third] = [(); 3].map(|()| take(size));
            // SAFETY: it is not: the test writes over the head of the second one.
            fill(first, unsafe { heap.length_of(first) } + 8, 0xff);
            free(heap, second);
        });
        ends_with("", || {
            let (block, _behind_it) = (take(size), take(size));
            free(heap, block);
            // SAFETY: it is not: the block is free.
            unsafe { heap.resize(block, size + 100) };
        });
    }
    ends_with(" was written to after it was freed", || {
        let block = take(40);
        free(heap, block);
        fill(block, 40, 0x41);
        take(40);
    });
    assert_eq!(end(|| free(heap, take(40))).0, 0);
    give_back(heap);
}

#[test]
fn a_thread_that_puts_back_damaged_blocks_at_its_end_leaves_it_to_the_interpreter_s_next_call() {
    let heap = heap();
    // Links lead out of the heap, into a part that is not in use, and to where no block begins.
    let beyond = |heap: &super::super::Heap| heap.start + (heap.length / 2);
    let links: [fn(&super::super::Heap) -> usize; 3] = [|_| 0x4141_4140, beyond, |heap| heap.start];
    for link in links {
        ends_with(" or something wrote over its head", || {
            let ends = thread::spawn(move || {
                // Another one is there before, so that the second is behind it in a list.
                let blocks = [(); 3].map(|()| heap.allocate(User::Libraries, 40));
                blocks.into_iter().for_each(|block| free(heap, block));
                // SAFETY: it is not: the block is free.
                unsafe { blocks[1].cast::<usize>().write(link(heap)) };
            });
            ends.join().unwrap();
            // The others are not concerned.
            let other = super::heap();
            free(other, other.allocate(User::Libraries, 5000));
            assert_ne!(heap.damage.load(super::Ordering::Relaxed), 0);
            heap.allocate(User::Libraries, 5000);
        });
    }
    give_back(heap);
}

#[test]
fn the_heap_of_a_crashed_interpreter_holds_up_nobody_and_goes_to_the_next() {
    let domain = Loader::builder().build().unwrap().domain("crashed").build().unwrap().id();
    let heap = heap();
    heap.belongs_to(domain);
    let size = [40, 5000, 40 << 20];
    let blocks = size.map(|size| heap.allocate(User::Libraries, size));
    let moved = size.map(|size| heap.allocate(User::Libraries, size));
    moved.iter().for_each(|block| fill(*block, 40, 7));
    let (blocks, moved) = (blocks.map(|one| one.addr()), moved.map(|one| one.addr()));
    // The thread leaves the functions of the heap in the middle.
    (0..ARENAS).for_each(|index| std::mem::forget(heap.arenas[index].take()));
    std::mem::forget(within::Within::arenas(heap));
    assert!(within::may_leave(domain));
    within::note_crash(domain);
    within::leave(domain);
    let begin = Instant::now();
    thread::spawn(move || {
        for block in blocks {
            free(heap, std::ptr::with_exposed_provenance_mut(block));
        }
        for (block, size) in moved.into_iter().zip(size) {
            // SAFETY: a block of the heap.
            let new =
                unsafe { heap.resize(std::ptr::with_exposed_provenance_mut(block), size + 100) };
            assert!(!heap.owns(new) && is_filled(new, 40, 7));
            // SAFETY: malloc's.
            unsafe { libc::free(new) };
        }
    })
    .join()
    .unwrap();
    assert!(heap.still(true).is_none() && !heap.trim());
    give_back(heap);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let mut others = Vec::new();
    // Another test may have given one back too.
    let next = loop {
        let other = super::heap();
        if std::ptr::eq(other, heap) {
            break other;
        }
        others.push(other);
    };
    assert!(others.len() < 100);
    for user in [User::Libraries, User::Python] {
        let block = next.allocate(user, 3000);
        assert!(is_filled(block, 3000, 0));
        free(next, block);
    }
    give_back(next);
    others.into_iter().for_each(give_back);
}

#[test]
fn a_thread_that_uses_what_is_the_process_s_may_not_leave() {
    let loader = Loader::builder().build().unwrap();
    let [domain, other] = ["one", "other"].map(|name| loader.domain(name).build().unwrap().id());
    let heap = heap();
    heap.belongs_to(domain);
    assert!(within::may_leave(domain) && within::may_leave(other));
    let in_arenas = within::Within::arenas(heap);
    assert!(within::may_leave(domain) && !within::may_leave(other));
    let with_the_process = within::Within::process();
    assert!(!within::may_leave(domain) && !within::may_leave(other));
    drop(with_the_process);
    assert!(within::may_leave(domain));
    drop(in_arenas);
    assert!(within::may_leave(other));
    give_back(heap);
}
