//! The table of environments.

use hydrozoa_testkit::refusal::optional;

/// One environment.
pub struct Row {
    pub name: String,
    /// A script of sh that runs `"$@"` in it. `$SCRATCH` is an empty folder on a disk, `$PREFIX` that of Python.
    pub script: &'static str,
    /// Numbers of streams that the program closes.
    pub closed: &'static str,
    /// System calls that the kernel refuses (`hydrozoa_testkit::refusal::refuse`).
    pub refused: String,
    /// Steps that do not work, each with words of its error.
    pub differs: Differs,
    /// Whether it changes something of the whole machine.
    pub of_machine: bool,
}

const PLAIN: &str = "exec \"$@\"";

/// Steps that do not work, each with words of the error.
type Differs = &'static [(&'static str, &'static str)];

const WORKS: Differs = &[];
const NO_THREAD: Differs = &[(
    "start",
    "the system gives it no thread: Resource temporarily unavailable (os error 11) (a limit is reached: of threads, see ulimit -u",
)];
/// The loader reads and changes pages of the process by files of /proc.
const NO_PROC: Differs = &[("start", "the process cannot host replicas: ")];

/// Environments that a script makes.
const SCRIPTS: [(&str, &str, Differs); 56] = [
    ("plain", PLAIN, WORKS),
    (
        "limit_of_address_space_400_mib",
        "ulimit -v 409600; exec \"$@\"",
        &[("settle", "raise the limit on address space (ulimit -v)")],
    ),
    ("limit_of_address_space_4_gib", "ulimit -v 4194304; exec \"$@\"", WORKS),
    ("limit_of_data_16_mib", "ulimit -d 16384; exec \"$@\"", &[("start", "did not start: ")]),
    ("limit_of_data_1_gib", "ulimit -d 1048576; exec \"$@\"", WORKS),
    ("limit_of_stack_256_kib", "ulimit -s 256; exec \"$@\"", WORKS),
    ("stack_without_limit", "ulimit -s unlimited; exec \"$@\"", WORKS),
    ("limit_of_processes_1", LIMIT_OF_PROCESSES, NO_THREAD),
    (
        "limit_of_descriptors_5",
        "ulimit -n 5; exec \"$@\"",
        &[("start", "raise the process's limit of open files: ulimit -n")],
    ),
    (
        "limit_of_descriptors_8",
        "ulimit -n 8; exec \"$@\"",
        &[("settle", "raise the process's limit of open files: ulimit -n")],
    ),
    ("limit_of_descriptors_12", "ulimit -n 12; exec \"$@\"", WORKS),
    ("limit_of_descriptors_16", "ulimit -n 16; exec \"$@\"", WORKS),
    ("limit_of_descriptors_32", "ulimit -n 32; exec \"$@\"", WORKS),
    (
        "limit_of_files_0",
        "ulimit -f 0; exec \"$@\"",
        &[("start", "cannot create a memory file for it: File too large")],
    ),
    ("limit_of_locked_memory_0", "ulimit -l 0; exec \"$@\"", WORKS),
    ("addresses_not_random", "exec setarch -R \"$@\"", WORKS),
    ("addresses_of_old_layout", "exec setarch -L \"$@\"", WORKS),
    ("readable_is_executable", "exec setarch -X \"$@\"", WORKS),
    ("process_1", "exec unshare --pid --fork --kill-child --mount-proc \"$@\"", WORKS),
    ("process_1_with_another_proc", "exec unshare --pid --fork --kill-child \"$@\"", WORKS),
    ("user_namespace", "exec unshare --user --map-root-user \"$@\"", WORKS),
    ("user_namespace_of_nobody", "exec unshare --user \"$@\"", WORKS),
    (
        "all_namespaces",
        "exec unshare --user --map-root-user --mount --uts --ipc --net --cgroup --pid --fork --kill-child \"$@\"",
        WORKS,
    ),
    (
        "time_namespace",
        "exec unshare --time --boottime 1000000 --monotonic 1000000 --fork \"$@\"",
        WORKS,
    ),
    ("no_proc", "exec unshare --mount sh -ec 'umount -l /proc; exec \"$@\"' sh \"$@\"", NO_PROC),
    ("no_shared_memory", NO_SHARED_MEMORY, WORKS),
    ("read_only_temporary_files", READ_ONLY_TEMPORARY_FILES, WORKS),
    ("read_only_files", READ_ONLY_FILES, &[("settle", "Read-only file system")]),
    ("empty_root", EMPTY_ROOT, NO_PROC),
    (
        "empty_root_with_proc",
        EMPTY_ROOT_WITH_PROC,
        &[("child", "No such file or directory: '/bin/sh'")],
    ),
    ("one_processor", "exec taskset -c 0 \"$@\"", WORKS),
    ("group_of_memory_256_mib", GROUP_OF_MEMORY, WORKS),
    ("group_of_one_process", GROUP_OF_PROCESSES, NO_THREAD),
    (
        "full_disk",
        FULL_DISK,
        &[("settle", "No space left on device (os error 28) (free space on the disk)")],
    ),
    (
        "settled_in_memory",
        "export HYDROZOA_TEST_SETTLE=/dev/shm; exec \"$@\"",
        &[("settle", "are in memory, so nothing would be gained; name a directory on a disk")],
    ),
    (
        "jemalloc",
        "p=$(library libjemalloc.so.2) || exit 77; export LD_PRELOAD=$p; exec \"$@\"",
        WORKS,
    ),
    (
        "mimalloc",
        "p=$(library libmimalloc.so.2) || exit 77; export LD_PRELOAD=$p; exec \"$@\"",
        WORKS,
    ),
    (
        "tcmalloc",
        "p=$(library libtcmalloc_minimal.so.4) || exit 77; export LD_PRELOAD=$p; exec \"$@\"",
        WORKS,
    ),
    (
        "malloc_without_caches",
        "export GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=4096; exec \"$@\"",
        WORKS,
    ),
    ("malloc_of_huge_pages", "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1; exec \"$@\"", WORKS),
    ("malloc_with_other_bytes", "export MALLOC_PERTURB_=165 MALLOC_CHECK_=3; exec \"$@\"", WORKS),
    ("no_restartable_sequences", "export GLIBC_TUNABLES=glibc.pthread.rseq=0; exec \"$@\"", WORKS),
    (
        "little_static_tls",
        "export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=0; exec \"$@\"",
        WORKS,
    ),
    (
        "python_s_allocator_checks",
        "export HYDROZOA_TEST_OWN=1 PYTHONMALLOC=debug; exec \"$@\"",
        WORKS,
    ),
    (
        "python_s_allocator_is_malloc",
        "export HYDROZOA_TEST_OWN=1 PYTHONMALLOC=malloc; exec \"$@\"",
        WORKS,
    ),
    ("python_s_development_mode", "export HYDROZOA_TEST_OWN=1 PYTHONDEVMODE=1; exec \"$@\"", WORKS),
    ("bound_at_once", "export LD_BIND_NOW=1; exec \"$@\"", WORKS),
    ("locale_c", "export LC_ALL=C; exec \"$@\"", WORKS),
    ("locale_that_does_not_exist", "export LC_ALL=xx_XX.UTF-8 LANGUAGE=xx; exec \"$@\"", WORKS),
    ("time_zone_that_does_not_exist", "export TZ=:/nowhere/at/all; exec \"$@\"", WORKS),
    ("no_home_and_no_path", "unset HOME PATH LANG PWD OLDPWD TMPDIR USER; exec \"$@\"", WORKS),
    ("huge_environment", HUGE_ENVIRONMENT, WORKS),
    (
        "directory_that_was_removed",
        "mkdir $SCRATCH/d; cd $SCRATCH/d; rmdir $SCRATCH/d; exec \"$@\"",
        WORKS,
    ),
    ("new_files_that_nobody_may_read", "umask 777; exec \"$@\"", WORKS),
    ("no_new_privileges", "exec setpriv --no-new-privs \"$@\"", WORKS),
    ("ignored_signals", "trap '' PIPE HUP USR1; exec \"$@\"", WORKS),
];

const HUGE_ENVIRONMENT: &str = "
big=$(head -c 120000 /dev/zero | tr '\\0' x)
for i in 0 1 2 3 4 5 6 7 8 9; do export \"BIG_$i=$big\"; done
exec \"$@\"";

const NO_SHARED_MEMORY: &str = "
exec unshare --mount sh -ec 'mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; exec \"$@\"' sh \"$@\"";

/// `$SCRATCH` may lie there, and stays writable.
const READ_ONLY_TEMPORARY_FILES: &str = "
exec unshare --mount sh -ec '
mount --bind \"$SCRATCH\" \"$SCRATCH\"
mount --rbind /tmp /tmp; mount -o remount,bind,ro /tmp; exec \"$@\"' sh \"$@\"";

const READ_ONLY_FILES: &str = "
exec unshare --mount sh -ec '
mount --bind \"$SCRATCH\" \"$SCRATCH\"
mount -o remount,bind,ro \"$SCRATCH\"; mount -o remount,bind,ro /; exec \"$@\"' sh \"$@\"";

/// A root with the program and its dependencies, further folders, and nothing else.
macro_rules! empty_root {
    ($folders:literal, $options:literal) => {
        concat!(
            "exec unshare --mount sh -ec '
root=$SCRATCH/root; mkdir $root; mount -t tmpfs none $root; chmod 777 \"$SCRATCH\"
for folder in ",
            $folders,
            " /lib /lib64 /usr/lib \"$PREFIX\" \"$(dirname \"$1\")\" \"$SCRATCH\"; do
    [ -e \"$folder\" ] || continue
    mkdir -p \"$root$folder\"; mount --bind \"$folder\" \"$root$folder\"
done
exec chroot ",
            $options,
            " $root \"$@\"' sh \"$@\""
        )
    };
}

const EMPTY_ROOT: &str = empty_root!("", "");
const EMPTY_ROOT_WITH_PROC: &str = empty_root!("/proc", "");
/// The limit does not hold for root (setrlimit(2)), and others may not see its files.
const LIMIT_OF_PROCESSES: &str =
    concat!("ulimit -p 1; ", empty_root!("/proc /dev", "--userspec=54321:54321"));

const GROUP_OF_MEMORY: &str = "
group=/sys/fs/cgroup/memory; [ -d $group ] || group=/sys/fs/cgroup
mkdir $group/hydrozoa-$$ || lacks 'control groups of memory'
trap 'rmdir '$group/hydrozoa-$$ EXIT
echo 268435456 > $group/hydrozoa-$$/memory.limit_in_bytes ||
    echo 268435456 > $group/hydrozoa-$$/memory.max || lacks 'control groups of memory'
sh -c 'echo $$ > '$group/hydrozoa-$$'/cgroup.procs; exec \"$@\"' sh \"$@\"";

const GROUP_OF_PROCESSES: &str = "
group=/sys/fs/cgroup/pids; [ -d $group ] || group=/sys/fs/cgroup
mkdir $group/hydrozoa-$$ || lacks 'control groups of processes'
trap 'rmdir '$group/hydrozoa-$$ EXIT
echo 1 > $group/hydrozoa-$$/pids.max || lacks 'control groups of processes'
sh -c 'echo $$ > '$group/hydrozoa-$$'/cgroup.procs; exec \"$@\"' sh \"$@\"";

/// A disk of 8 MiB without a free block.
const FULL_DISK: &str = "
has mkfs.ext4
exec unshare --mount sh -c '
truncate -s 8M \"$SCRATCH/image\" && mkfs.ext4 -q \"$SCRATCH/image\" && mkdir \"$SCRATCH/disk\" &&
mount -o loop \"$SCRATCH/image\" \"$SCRATCH/disk\" || { echo \"lacks: loop devices\" >&3; exit 77; }
cat /dev/zero > \"$SCRATCH/disk/full\" 2>/dev/null
export HYDROZOA_TEST_SETTLE=$SCRATCH/disk; exec \"$@\"' sh \"$@\"";

/// Memory is promised only as far as there is some: requests beyond are refused, reserved ones as well.
const STRICT: &str = "
cd /proc/sys/vm
mode=$(cat overcommit_memory); ratio=$(cat overcommit_ratio); kilobytes=$(cat overcommit_kbytes)
restore() { echo $mode > overcommit_memory; [ $kilobytes = 0 ] && echo $ratio > overcommit_ratio || echo $kilobytes > overcommit_kbytes; }
trap restore EXIT
echo $(($(sed -n 's/Committed_AS: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo) + 6000000)) > overcommit_kbytes &&
    echo 2 > overcommit_memory || lacks 'the right to set vm.overcommit_memory'
(cd / && \"$@\")";

/// Refusals without which something does not work.
const NEEDED: [(&str, Differs); 4] = [
    (
        "memfd_create_is_enosys",
        &[("start", "cannot create a memory file for it: Function not implemented")],
    ),
    (
        "memfd_create_is_eperm",
        &[("start", "the system forbids it: see the mount's options, seccomp")],
    ),
    ("clone3_is_eperm", &[("start", "the system gives it no thread: Operation not permitted")]),
    (
        "fallocate_is_eperm",
        &[("settle", "the system forbids it: see the mount's options, seccomp")],
    ),
];

pub fn all() -> Vec<Row> {
    let row = |name: &str, script: &'static str, differs| Row {
        name: name.to_owned(),
        script,
        closed: "",
        refused: String::new(),
        differs,
        of_machine: false,
    };
    let mut rows: Vec<Row> =
        SCRIPTS.iter().map(|(name, script, differs)| row(name, script, differs)).collect();
    rows.push(Row { of_machine: true, ..row("memory_is_not_overcommitted", STRICT, WORKS) });
    for (name, closed) in [
        ("stdin_closed", "0"),
        ("stdout_closed", "1"),
        ("stderr_closed", "2"),
        ("all_streams_closed", "0,1,2"),
    ] {
        rows.push(Row { closed, ..row(name, PLAIN, WORKS) });
    }
    for call in optional() {
        // The kernel's own answer to advice that it does not know is EINVAL.
        let unknown = if call.contains('/') { "EINVAL" } else { "ENOSYS" };
        for error in [unknown, "EPERM"] {
            let name = format!("{}_is_{}", call.replace('/', "_"), error.to_lowercase());
            let differs = NEEDED.iter().find(|(known, _)| *known == name);
            let differs = differs.map_or(WORKS, |(_, differs)| differs);
            let refused = format!("{call}={error}");
            rows.push(Row { refused, ..row(&name, PLAIN, differs) });
        }
    }
    rows
}
