//! The errors that only torch provokes. `errors` has the others.

mod common;

use common::venv;
use hydrozoa::package::build::Recipe;
use hydrozoa::package::{PackageError, build};
use hydrozoa::{Error, Pool};
use hydrozoa_testkit::alone::alone;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds for a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A new directory for the test `name`.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors_torch").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn modules_that_cannot_be_packaged_are_named_with_how_they_came_and_what_to_do() {
    alone(PATIENCE, || {
        let place = directory("build");
        fs::write(place.join("unwanted.py"), "def f(x): return x\n").unwrap();
        let model = "import unwanted\nclass Net:\n    def __call__(self): return unwanted.f(1)\ndef made(): return Net()\n";
        fs::write(place.join("project.py"), model).unwrap();
        let pool = Pool::builder().interpreters(1).venv(venv()).build().unwrap();
        let mut recipe = Recipe::new("project:made");
        recipe.paths.push(place.clone());
        recipe.rules.push((build::Action::Deny, "unwanted".to_owned()));
        let error = pool.build_package(&recipe, place.join("model.pt")).unwrap_err();
        assert!(matches!(error, Error::Package(PackageError::Build { .. })), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("project:made cannot be packaged:\n  "), "{text}");
        assert!(text.contains("project -> unwanted: a --deny rule"), "{text}");
        println!("{text}");
    });
}
