//! The intended differences from plain python are those in docs/faithful.md.

use crate::beside::{Seen, both, copy, directory, plain, pythons};

#[test]
fn a_fork_in_one_of_several_copies_warns_as_beside_threads() {
    let program = "import os, warnings\n\
        with warnings.catch_warnings(record=True) as told:\n    \
            warnings.simplefilter('always')\n    \
            child = os.fork()\n    \
            if child == 0: os._exit(0)\n\
        os.waitpid(child, 0)\n\
        print([warning.category.__name__ for warning in told])\n";
    for (minor, python) in pythons() {
        let [plain, alone] = both(python, program);
        assert_eq!((plain.output.as_str(), &alone), ("[]\n", &plain), "3.{minor}");
        let mut command = copy(python, &["--copies", "3", "--in", "2"]);
        let seen: Seen = command.args(["-c", program]).output().unwrap().into();
        let expected = if *minor >= 12 { "['DeprecationWarning']\n" } else { "[]\n" };
        assert_eq!(seen.output, expected, "3.{minor}: {}", seen.errors);
    }
}

#[test]
fn the_process_is_hydrozoa_s_and_its_children_are_plain_python() {
    let child =
        "import os; print(os.path.realpath('/proc/self/exe'), os.environ.get('HYDROZOA_COPY'))";
    let program = format!(
        "import os, subprocess, sys\n\
         print(os.path.basename(os.readlink('/proc/self/exe')))\n\
         print(b'HYDROZOA_COPY' in open('/proc/self/environ', 'rb').read())\n\
         print(os.environ.get('HYDROZOA_COPY'))\n\
         print(os.path.realpath(sys.executable))\n\
         environment = {{name: text for name, text in os.environ.items() if name != 'HYDROZOA_COPY'}}\n\
         command = [sys.executable, '-c', {child:?}]\n\
         print(subprocess.run(command, env=environment, capture_output=True, text=True).stdout)\n"
    );
    for (minor, python) in pythons() {
        let [plain, copy] = both(python, &program);
        let [plain, copy] = [&plain, &copy].map(|seen| seen.output.lines().collect::<Vec<_>>());
        assert_eq!(copy[..3], ["hydrozoa", "False", "1"], "3.{minor}");
        assert_eq!(plain[1..3], ["False", "None"], "3.{minor}");
        // The same executable, and the same child.
        assert_eq!(copy[3..], plain[3..], "3.{minor}");
        assert!(plain[4].starts_with(plain[3]) && plain[4].ends_with(" None"), "{plain:?}");
    }
}

#[test]
fn copies_at_once_have_a_time_zone_each_and_no_first_thread() {
    let ready = directory("at-once").canonicalize().unwrap().join("ready");
    let program = format!(
        "import os, threading, time\n\
         if os.environ['HYDROZOA_COPY'] == '1':\n    \
             os.environ['TZ'] = 'XYZ-3'\n    \
             time.tzset()\n    \
             open({ready:?}, 'w').close()\n\
         while not os.path.exists({ready:?}): time.sleep(0.01)\n\
         own = threading.main_thread().native_id == os.getpid()\n\
         os.write(1, f'{{time.localtime(0).tm_gmtoff}} {{own}}\\n'.encode())\n"
    );
    for (minor, python) in pythons() {
        let _ = std::fs::remove_file(&ready);
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let seen: Seen = command.args(["-c", &program]).output().unwrap().into();
        let offset = "import time; print(time.localtime(0).tm_gmtoff)";
        let offset: Seen = plain(python).args(["-c", offset]).output().unwrap().into();
        let mut lines: Vec<_> = seen.output.lines().collect();
        lines.sort_unstable();
        let others = format!("{} False", offset.output.trim());
        let mut expected = ["10800 False", &others, &others];
        expected.sort_unstable();
        assert_eq!(lines, expected, "3.{minor}: {}", seen.errors);
    }
    let own = "import os, threading; print(threading.main_thread().native_id == os.getpid())";
    for python in pythons().values() {
        let seen: Seen = plain(python).args(["-c", own]).output().unwrap().into();
        assert_eq!(seen.output, "True\n");
    }
}
