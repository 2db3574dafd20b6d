use super::window::STEP;
use super::*;
use dlmalloc::Allocator;
use std::sync::Mutex;
use std::thread;

fn heap() -> &'static Heap {
    Heap::of_an_interpreter().unwrap()
}

#[test]
fn blocks_are_told_by_their_addresses_and_keep_their_bytes() {
    let (one, other) = (heap(), heap());
    let mut blocks = Vec::new();
    for size in [0, 1, 16, 24, 100, 1000, 5000, 100_000, LARGEST] {
        for heap in [one, other] {
            let block = heap.allocate(size);
            assert!(!block.is_null() && block.addr().is_multiple_of(16));
            assert!(heap.used().contains(&block.addr()));
            assert!(ptr::eq(Heap::of(block).unwrap(), heap));
            // SAFETY: the block has so many bytes.
            unsafe { ptr::write_bytes(block.cast::<u8>(), size as u8, size) };
            blocks.push((heap, block, size));
        }
    }
    assert!(one.allocate(LARGEST + 1).is_null());
    let kept = one.allocate_up_to(LARGEST_KEPT, LARGEST_KEPT);
    assert!(ptr::eq(Heap::of(kept).unwrap(), one));
    assert!(one.allocate_up_to(LARGEST_KEPT, LARGEST_KEPT + 1).is_null());
    // SAFETY: a block of the heap, which is freed once.
    unsafe { one.free(kept) };
    for (heap, block, size) in blocks {
        // SAFETY: the block has so many bytes, and is freed once.
        unsafe {
            assert!(window::length_of(block) >= size);
            let bytes = std::slice::from_raw_parts(block.cast::<u8>(), size);
            assert!(bytes.iter().all(|byte| *byte == size as u8));
            heap.free(block);
        }
    }
    // SAFETY: malloc's.
    let foreign = unsafe { libc::malloc(10) };
    assert!(Heap::of(foreign).is_none() && Heap::of(ptr::null_mut()).is_none());
    // SAFETY: as above; nobody has blocks of the heaps any more.
    unsafe {
        libc::free(foreign);
        one.give_back();
        other.give_back();
    }
}

#[test]
fn a_block_that_a_thread_has_kept_is_given_to_those_that_fit_into_it() {
    let heap = heap();
    for size in 0..700 {
        let block = heap.allocate(size);
        // SAFETY: a block of the heap.
        let length = unsafe { window::length_of(block) };
        // SAFETY: as above; it is freed once.
        unsafe { heap.free(block) };
        // The longest that a thread keeps has 520 bytes.
        assert_eq!(heap.kept(length), (length <= 520).then_some(block), "{size}");
        if length <= 520 {
            // SAFETY: as above.
            unsafe { heap.free(block) };
            assert_ne!(heap.kept(length + 1), Some(block), "{size}");
        }
    }
    // Many of one length: each block is given once, whether the thread has kept it or not.
    for _ in 0..2 {
        let mut blocks: Vec<_> = (0..1000).map(|_| heap.allocate(40)).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0] < pair[1]));
        // SAFETY: as above.
        blocks.into_iter().for_each(|block| unsafe { heap.free(block) });
    }
    // SAFETY: nobody has blocks of it.
    unsafe { heap.give_back() };
}

#[test]
fn a_block_that_is_reallocated_becomes_malloc_s_with_its_bytes() {
    let heap = heap();
    for size in [10, 3000, 200_000] {
        let block = heap.allocate(1000);
        // SAFETY: the blocks have so many bytes, and each is freed once.
        unsafe {
            ptr::write_bytes(block.cast::<u8>(), 7, 1000);
            let moved = heap.moved(block, size);
            assert!(Heap::of(moved).is_none());
            let bytes = std::slice::from_raw_parts(moved.cast::<u8>(), size.min(1000));
            assert!(bytes.iter().all(|byte| *byte == 7));
            libc::free(moved);
        }
    }
    // SAFETY: nobody has blocks of it.
    unsafe { heap.give_back() };
}

#[test]
fn a_heap_that_is_given_back_is_empty_and_the_next_one_has_its_window() {
    let heap = heap();
    let start = heap.used().start;
    let mut last = ptr::null_mut();
    while heap.used().len() < 8 << 20 {
        last = heap.allocate(1000);
        // SAFETY: a word of the block.
        unsafe { *last.cast::<usize>() = 1 };
    }
    // SAFETY: nobody uses its blocks from now on.
    unsafe { heap.give_back() };
    assert!(heap.used().is_empty());
    let mut others = Vec::new();
    // Another test may have given one back too.
    let next = loop {
        let other = self::heap();
        if other.used().start == start {
            break other;
        }
        others.push(other);
    };
    let first = next.allocate(1000);
    assert!(!first.is_null() && first < last);
    // SAFETY: the block is not used; nobody has other blocks of these heaps.
    unsafe {
        assert_eq!(*first.cast::<usize>(), 0);
        next.give_back();
        others.into_iter().for_each(|other| other.give_back());
    }
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
                for round in 0..rounds {
                    let size = 16 + (round * 37 + number * 101) % 900;
                    let block = heap.allocate(size);
                    if !block.is_null() {
                        // SAFETY: the block has so many bytes.
                        unsafe { ptr::write_bytes(block.cast::<u8>(), number as u8, size) };
                        shared.lock().unwrap().push(block.expose_provenance());
                    }
                    if round % 2 == 1 {
                        let mut taken = shared.lock().unwrap();
                        let half = taken.len() / 2;
                        let blocks = taken.split_off(half);
                        drop(taken);
                        for block in blocks {
                            // SAFETY: a block of the heap that is in no list any more.
                            unsafe { heap.free(ptr::with_exposed_provenance_mut(block)) };
                        }
                    }
                }
            }));
        }
        // A thread that was joined has given back what it has kept.
        working.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // All that is left is what the list has.
    assert!(heap.with(|_| ()).is_some());
    assert!(heap.left.load(Ordering::Relaxed).is_null());
    assert!(heap.used().len() < 8 << 20, "{} bytes are kept", heap.used().len());
    // SAFETY: nobody uses its blocks from now on.
    unsafe { heap.give_back() };
}

#[test]
fn a_heap_is_given_back_while_threads_that_have_used_it_end() {
    for _ in 0..200 {
        let heap = heap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    let blocks: Vec<_> = (0..100).map(|size| heap.allocate(size)).collect();
                    for block in blocks.into_iter().filter(|block| Heap::of(*block).is_some()) {
                        // SAFETY: the block is one of the heap, and not used.
                        unsafe { heap.free(block) };
                    }
                    // Those that the thread has kept it gives back after this.
                })
            })
            .collect();
        while !threads.iter().all(thread::JoinHandle::is_finished) {
            thread::yield_now();
        }
        // SAFETY: the threads use no block any more.
        unsafe { heap.give_back() };
        let next = self::heap();
        let block = next.allocate(64);
        // SAFETY: the block, unless a thread that ends has the heap just now, has so many bytes. Nobody else uses them.
        unsafe {
            if !block.is_null() {
                ptr::write_bytes(block.cast::<u8>(), 1, 64);
            }
            next.give_back();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Whether the page at an address is in memory.
fn is_resident(address: usize) -> bool {
    let mut resident = 0;
    // SAFETY: the place has room for one page's answer.
    let known =
        unsafe { libc::mincore(ptr::with_exposed_provenance_mut(address), 4096, &mut resident) };
    known == 0 && resident & 1 != 0
}

#[test]
fn a_heap_that_is_large_already_gets_the_pages_of_its_next_step_at_once() {
    let heap = heap();
    // dlmalloc writes at both ends of a step, and has given out nothing of its middle yet.
    let middle = || heap.used().end - (128 << 10);
    // The step after 8 MiB is the first that is a thirty-second of what the heap has.
    for (length, is_touched) in [(1 << 20, false), (9 << 20, true)] {
        while heap.used().len() < length {
            assert!(!heap.allocate(1000).is_null());
        }
        assert_eq!(is_resident(middle()), is_touched, "{length}");
    }
    // What was given back and taken again is touched by its user only.
    let window = heap.window;
    let end = window.used().end;
    assert!(window.free_part(ptr::with_exposed_provenance_mut(end - STEP), STEP, 0));
    let (step, length, _) = window.alloc(1);
    assert_eq!((step.addr(), length), (end - STEP, STEP));
    assert!(!is_resident(middle()));
    // SAFETY: nobody has blocks of the heap any more.
    unsafe { heap.give_back() };
}
