mod damage;

use super::*;
use hydrozoa_payload::pages::page_size;
use std::sync::Mutex;

fn heap() -> &'static Heap {
    Heap::of_an_interpreter().unwrap()
}

/// Bytes that a heap has from the system.
fn used(heap: &Heap) -> usize {
    let arenas: usize = heap.arenas.iter().map(|arena| arena.used().len()).sum();
    arenas + heap.large.ranges().iter().map(Range::len).sum::<usize>()
}

fn fill(block: *mut c_void, size: usize, byte: u8) {
    // SAFETY: the tests give the size of a block of theirs.
    unsafe { ptr::write_bytes(block.cast::<u8>(), byte, size) };
}

fn is_filled(block: *mut c_void, size: usize, byte: u8) -> bool {
    // SAFETY: as above, and it was filled.
    let bytes = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), size) };
    bytes.iter().all(|other| *other == byte)
}

fn free(heap: &'static Heap, block: *mut c_void) {
    assert!(ptr::eq(Heap::of(block).unwrap(), heap));
    // SAFETY: the tests free each block once, and do not use it any more.
    unsafe { heap.free(block) };
}

fn give_back(heap: &'static Heap) {
    // SAFETY: nobody uses its blocks from now on.
    unsafe { heap.give_back() };
}

#[test]
fn blocks_of_all_sizes_and_users_are_told_by_their_addresses_and_keep_their_bytes() {
    let (one, other) = (heap(), heap());
    let mut blocks = Vec::new();
    for size in [0, 1, 16, 24, 100, 1000, 5000, 100_000, 200_000, 3 << 20, LARGE, LARGE + 1] {
        for (heap, user) in [(one, User::Libraries), (one, User::Python), (other, User::Python)] {
            let block = heap.allocate(user, size);
            assert!(!block.is_null() && block.addr().is_multiple_of(ALIGNMENT));
            let is_pythons = heap.parts()[0].contains(&block.addr());
            assert_eq!(is_pythons, user == User::Python && size < LARGE, "{size}");
            // SAFETY: a block of the heap.
            assert!(unsafe { heap.length_of(block) } >= size);
            fill(block, size, size as u8 | 1);
            blocks.push((heap, block, size));
        }
    }
    for (heap, block, size) in blocks {
        assert!(is_filled(block, size, size as u8 | 1), "{size}");
        free(heap, block);
    }
    assert!(one.large.ranges().is_empty());
    // SAFETY: malloc's.
    let foreign = unsafe { libc::malloc(10) };
    assert!(Heap::of(foreign).is_none() && Heap::of(ptr::null_mut()).is_none());
    assert!(one.allocate(User::Python, usize::MAX).is_null());
    // SAFETY: as above.
    unsafe { libc::free(foreign) };
    give_back(one);
    give_back(other);
}

#[test]
fn blocks_keep_their_bytes_as_they_grow_and_shrink() {
    let heap = heap();
    let sizes = [1, 600, 5000, 300_000, 3 << 20, LARGE - 1, LARGE, 2 * LARGE, LARGE + 1, 700, 9];
    for user in [User::Libraries, User::Python] {
        let (mut block, mut before) = (heap.allocate(user, 100), 100);
        let mut others = Vec::new();
        fill(block, before, 7);
        for (number, &size) in sizes.iter().enumerate() {
            // SAFETY: a block of the heap, which becomes the new one.
            block = unsafe { heap.resize(block, size) };
            assert!(is_filled(block, before.min(size), 7), "{before} -> {size}");
            fill(block, size, 7);
            before = size;
            // The next large block lies in the way of this one.
            let other = heap.allocate(user, size);
            fill(other, size, number as u8);
            others.push((other, size, number as u8));
        }
        for (other, size, byte) in others {
            assert!(is_filled(other, size, byte));
            free(heap, other);
        }
        free(heap, block);
    }
    assert!(heap.large.ranges().is_empty());
    give_back(heap);
}

#[test]
fn a_block_that_cannot_grow_stays_as_it_is() {
    let heap = heap();
    for size in [5000, LARGE] {
        let block = heap.allocate(User::Libraries, size);
        fill(block, size, 9);
        let taken = heap.limit.set(0).unwrap_err();
        for room in [0, LARGE] {
            heap.limit.set(taken + room).unwrap();
            // SAFETY: a block of the heap.
            assert!(unsafe { heap.resize(block, 4 * LARGE) }.is_null());
            assert!(is_filled(block, size, 9));
            assert!(heap.allocate(User::Python, 4 * LARGE).is_null());
        }
        heap.limit.set(usize::MAX).unwrap();
        free(heap, block);
    }
    heap.trim();
    give_back(heap);
    assert_eq!(heap.limit.set(0), Ok(()));
    heap.limit.reset();
}

#[test]
fn aligned_blocks_lie_at_multiples() {
    let heap = heap();
    let mut blocks = Vec::new();
    for shift in 5..22 {
        for size in [1, 1000, 70_000, 300_000] {
            let block = heap.new_block(User::Libraries, size, 1 << shift);
            assert!(block.addr().is_multiple_of(1 << shift), "{shift} {size}");
            fill(block, size, shift as u8);
            blocks.push((block, size, shift as u8));
        }
    }
    for (block, size, byte) in blocks {
        assert!(is_filled(block, size, byte));
        free(heap, block);
    }
    give_back(heap);
}

#[test]
fn a_block_that_a_thread_has_kept_is_given_to_those_that_fit_into_it() {
    let heap = heap();
    for size in 0..1400 {
        let block = heap.allocate(User::Libraries, size);
        // SAFETY: a block of the heap.
        let length = unsafe { heap.length_of(block) };
        free(heap, block);
        // The longest that a thread keeps has 1,032 bytes.
        assert_eq!(heap.kept(length), (length <= 1032).then_some(block), "{size}");
        if length <= 1032 {
            free(heap, block);
            assert_ne!(heap.kept(length + 1), Some(block), "{size}");
        }
    }
    // Many of one length: each block is given once, whether the thread has kept it or not.
    for _ in 0..2 {
        let mut blocks: Vec<_> = (0..1000).map(|_| heap.allocate(User::Libraries, 40)).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0] < pair[1]));
        blocks.into_iter().for_each(|block| free(heap, block));
    }
    give_back(heap);
}

#[test]
fn a_heap_that_is_given_back_is_empty_and_the_next_one_has_its_window() {
    let heap = heap();
    let mut last = ptr::null_mut();
    while used(heap) < 8 << 20 {
        for user in [User::Libraries, User::Python] {
            last = heap.allocate(user, 1000);
            fill(last, 8, 1);
        }
    }
    heap.allocate(User::Libraries, LARGE);
    give_back(heap);
    assert_eq!(used(heap), 0);
    let mut others = Vec::new();
    // Another test may have given one back too.
    let next = loop {
        let other = self::heap();
        if ptr::eq(other, heap) {
            break other;
        }
        others.push(other);
    };
    let first = next.allocate(User::Python, 1000);
    assert!(!first.is_null() && first < last);
    assert!(is_filled(first, 8, 0));
    give_back(next);
    others.into_iter().for_each(give_back);
}

#[test]
fn memory_that_is_free_goes_back_to_the_system() {
    let heap = heap();
    let blocks: Vec<_> = (0..4000).map(|_| heap.allocate(User::Libraries, 10_000)).collect();
    blocks.iter().for_each(|block| fill(*block, 10_000, 1));
    let (last, others) = blocks.split_last().unwrap();
    assert!(used(heap) > 40_000_000);
    let resident = || {
        let arena = heap.arenas[1].used();
        let mut pages = vec![0_u8; arena.len() / page_size()];
        // SAFETY: there is room for all answers.
        let known = unsafe {
            let start = ptr::with_exposed_provenance_mut(arena.start);
            libc::mincore(start, arena.len(), pages.as_mut_ptr())
        };
        assert_eq!(known, 0);
        pages.iter().filter(|page| **page & 1 != 0).count() * page_size()
    };
    // The last block keeps the end of the arena in use.
    others.iter().for_each(|block| free(heap, *block));
    assert!(resident() > 30_000_000);
    assert!(heap.trim());
    assert!(resident() < 1_000_000, "{}", resident());
    assert!(is_filled(*last, 10_000, 1));
    // As it is freed, more is free at the end than is kept.
    free(heap, *last);
    assert!(used(heap) < 4 << 20, "{}", used(heap));
    give_back(heap);
}

#[test]
fn a_block_that_is_taken_and_freed_again_and_again_keeps_its_pages() {
    let heap = heap();
    let take = || heap.allocate(User::Libraries, 8 << 20);
    // At first it is a large one.
    free(heap, take());
    let block = take();
    assert!(heap.large.ranges().is_empty());
    fill(block, 8 << 20, 3);
    for _ in 0..10 {
        free(heap, block);
        assert_eq!(take(), block);
        // SAFETY: the bytes of the block, which nobody has written since.
        assert_eq!(unsafe { *block.cast::<u8>().add(4 << 20) }, 3);
    }
    free(heap, block);
    give_back(heap);
}

#[test]
fn threads_that_take_and_free_each_others_blocks_lose_none() {
    let heap = heap();
    let (rounds, threads) = (20_000, 4);
    let shared = &Mutex::new(Vec::<usize>::new());
    thread::scope(|scope| {
        let mut working = Vec::new();
        // Each thread frees what another one has taken, by one list.
        for number in 0..threads {
            working.push(scope.spawn(move || {
                let user = if number == 0 { User::Python } else { User::Libraries };
                for round in 0..rounds {
                    let size = 16 + (round * 37 + number * 101) % 1800;
                    let block = heap.allocate(user, size);
                    fill(block, size, number as u8);
                    shared.lock().unwrap().push(block.expose_provenance());
                    if round % 2 == 1 {
                        let mut taken = shared.lock().unwrap();
                        let half = taken.len() / 2;
                        let blocks = taken.split_off(half);
                        drop(taken);
                        for block in blocks {
                            free(heap, ptr::with_exposed_provenance_mut(block));
                        }
                    }
                }
            }));
        }
        // A thread that was joined has given back what it has kept.
        working.into_iter().for_each(|thread| thread.join().unwrap());
    });
    for block in std::mem::take(&mut *shared.lock().unwrap()) {
        free(heap, ptr::with_exposed_provenance_mut(block));
    }
    heap.trim();
    assert_eq!(heap.damage.load(Ordering::Relaxed), 0);
    assert!(used(heap) < ARENAS * (512 << 10), "{} bytes are kept", used(heap));
    give_back(heap);
}

#[test]
fn an_arena_that_a_thread_never_gives_back_holds_up_nobody() {
    let heap = heap();
    let blocks: Vec<_> = (0..100).map(|_| heap.allocate(User::Libraries, 2000)).collect();
    // As after a fork, or a crash of a thread in the middle of an allocation.
    std::mem::forget(heap.arenas[1].take());
    for block in blocks {
        // SAFETY: a block of the heap.
        let moved = unsafe { heap.resize(block, 5000) };
        free(heap, moved);
    }
    let block = heap.allocate(User::Libraries, 2000);
    assert!(heap.arenas[2].used().contains(&block.addr()));
    // Python's allocator waits for its arena, but once.
    std::mem::forget(heap.arenas[PYTHONS].take());
    let take = || assert!(!heap.parts()[0].contains(&heap.allocate(User::Python, 5000).addr()));
    take();
    let begin = std::time::Instant::now();
    (0..1000).for_each(|_| take());
    assert!(begin.elapsed() < std::time::Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(heap.still(false).is_none());
    give_back(heap);
}

#[test]
fn who_asks_for_memory_of_a_heap_that_is_kept_still_waits() {
    let heap = heap();
    let kept = heap.allocate(User::Python, 2000);
    let large = heap.allocate(User::Libraries, LARGE);
    let still = heap.still(true).unwrap();
    let used = still.used();
    thread::scope(|scope| {
        let asking = scope.spawn(|| heap.allocate(User::Python, 2000).addr());
        free(heap, kept);
        free(heap, large);
        thread::sleep(std::time::Duration::from_millis(300));
        assert!(!asking.is_finished());
        assert_eq!(still.used(), used);
        drop(still);
        assert!(heap.parts()[0].contains(&asking.join().unwrap()));
    });
    assert!(heap.large.ranges().is_empty());
    give_back(heap);
}

#[test]
fn a_heap_is_given_back_while_threads_that_have_used_it_end() {
    for _ in 0..200 {
        let heap = heap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    let take = |size| heap.allocate(User::Libraries, size);
                    let blocks: Vec<_> = (0..100).map(take).collect();
                    blocks.into_iter().for_each(|block| free(heap, block));
                    // Those that the thread has kept it gives back after this.
                })
            })
            .collect();
        while !threads.iter().all(thread::JoinHandle::is_finished) {
            thread::yield_now();
        }
        give_back(heap);
        let next = self::heap();
        fill(next.allocate(User::Libraries, 64), 64, 1);
        assert_eq!(next.damage.load(Ordering::Relaxed), 0);
        give_back(next);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
