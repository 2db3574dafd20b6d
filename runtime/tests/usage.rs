//! Private memory, as `hydrozoa::memory` defines it. Each test measures a child of its own, where nothing else runs.

use hydrozoa::memory::Usage;
use hydrozoa_testkit::process::in_child;
use std::fs::File;
use std::hint::black_box;

const MIB: usize = 1 << 20;

/// Runs a test in a child.
fn alone(test: impl FnOnce()) {
    let said = in_child(60, || {
        test();
        "done".to_owned()
    });
    assert_eq!(said, Ok("done".to_owned()));
}

#[test]
fn what_is_written_is_private_and_what_is_read_is_not() {
    alone(|| {
        let before = Usage::of_process().unwrap();
        let written = vec![1_u8; 32 * MIB];
        let grown = Usage::of_process().unwrap() - before;
        assert!(grown.private >= 31 * MIB as i64, "{grown:?} with {} bytes more", written.len());
        // Zeroed memory that no code writes is the kernel's page of zeros.
        let before = Usage::of_process().unwrap();
        let read = vec![0_u8; 32 * MIB];
        black_box(read.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>());
        let grown = Usage::of_process().unwrap() - before;
        assert!(grown.private < 8 * MIB as i64, "{grown:?}");
    });
}

#[test]
fn pages_of_a_file_that_was_just_written_are_not_private() {
    alone(|| {
        let path = std::env::temp_dir().join(format!("hydrozoa-written-{}", std::process::id()));
        std::fs::write(&path, vec![1_u8; 32 * MIB]).unwrap();
        let file = File::open(&path).unwrap();
        // SAFETY: no other code knows the file, and it keeps its length.
        let mut mapped = unsafe { memmap2::MmapOptions::new().map_copy(&file) }.unwrap();
        black_box(mapped.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>());
        let own = std::process::id();
        let read = Usage::of_file(own, &path).unwrap();
        mapped[..8 * MIB].fill(2);
        let copied = Usage::of_file(own, &path).unwrap();
        let _ = std::fs::remove_file(&path);
        assert_eq!((read.private, read.resident), (0, 32 * MIB as i64));
        assert_eq!(copied.private, 8 * MIB as i64);
    });
}

#[test]
fn a_forked_child_owns_only_what_it_has_written() {
    alone(|| {
        let mut block = vec![1_u8; 32 * MIB];
        let mut ends = [0; 2];
        // SAFETY: two descriptors are written to the array.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let parent = Usage::of_process().unwrap();
        // SAFETY: until it ends, the child writes only its own memory and calls only async-signal-safe functions.
        let child = unsafe { libc::fork() };
        if child == 0 {
            block[..8 * MIB].fill(2);
            black_box(&block);
            // SAFETY: the descriptor is open; pause and its end need nothing else.
            unsafe {
                libc::write(ends[1], [1_u8].as_ptr().cast(), 1);
                libc::alarm(60);
                libc::pause();
                libc::_exit(0);
            }
        }
        let mut byte = 0_u8;
        // SAFETY: one byte is written to the variable.
        assert_eq!(unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) }, 1);
        let (own, child_usage) = (Usage::of_process(), Usage::of(child as u32));
        // SAFETY: the child and the descriptors are this test's.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
        let (own, child) = (own.unwrap(), child_usage.unwrap());
        assert!((8 * MIB as i64..16 * MIB as i64).contains(&child.private), "{child:?}");
        assert!(parent.private - own.private > 16 * MIB as i64, "{parent:?}, {own:?}");
    });
}
