//! The comparison on a GPU, or its error on a machine without one.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_comparison_on_a_gpu_is_made_or_says_that_there_is_none() {
    let Some(venv) = std::env::var_os("HYDROZOA_TEST_VENV").map(PathBuf::from) else {
        panic!(
            "HYDROZOA_TEST_VENV is not set: this test needs a virtual environment with torch. \
             `cargo xtask test` makes one and runs all tests in it."
        );
    };
    let program = "import sys, torch; sys.exit(not torch.cuda.is_available())";
    let status = Command::new(venv.join("bin/python")).args(["-c", program]).status().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args(["gpu", "--counts", "1,2", "--seconds", "0.5", "--layers", "2", "--venv"])
        .arg(&venv)
        .output()
        .unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if status.success() {
        assert!(output.status.success(), "{errors}");
        assert!(
            printed.contains("2 interpreters") && printed.contains("uploaded once"),
            "{printed}"
        );
    } else {
        assert!(!output.status.success(), "{printed}");
        assert!(errors.contains("sees no device cuda") && errors.contains("GPU"), "{errors}");
        assert!(printed.is_empty(), "{printed}");
    }
}
