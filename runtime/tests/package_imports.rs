//! Packages that carry a profile of imports.

mod common;

use common::venv;
use hydrozoa::package::Archive;
use hydrozoa::package::build::{Profile, Recipe, Verdict};
use hydrozoa::{Builder, Error, ImportProfile, Imports, Pool, Tensor};
use hydrozoa_testkit::alone::alone;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The package's own module is interned. torchvision has C extensions and stays outside.
const PROJECT: &str = "
import torch
import torchvision.ops

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, boxes):
        scaled = self.linear(boxes).abs()
        return torchvision.ops.box_area(scaled + torch.tensor([0.0, 0.0, 9.0, 9.0]))

def made():
    torch.manual_seed(1)
    return Net().eval().requires_grad_(False), (torch.arange(12.0).reshape(3, 4),)

def without_arguments():
    return made()[0]
";

const STOCK: &str = "
import sys, torch.package
importer = torch.package.PackageImporter(sys.argv[1])
model = importer.load_pickle('model', 'model.pkl')
arguments = importer.load_pickle('model', 'example.pkl')
print([float(value).hex() for value in model(*arguments)])
print('.data/hydrozoa/imports' in importer.zip_reader.get_all_records())
";

fn builder() -> Builder {
    Pool::builder().venv(venv()).interpreters(1)
}

fn recipe(folder: &Path, function: &str, profile: Profile) -> Recipe {
    let mut recipe = Recipe::new(format!("project:{function}"));
    recipe.paths.push(folder.to_owned());
    recipe.search = Duration::ZERO;
    recipe.profile = profile;
    recipe
}

/// The package's output in the pool's last interpreter, the number of modules there afterwards, and why it has caught up.
fn serve(pool: &Pool, archive: &Archive) -> (Vec<u32>, usize, Option<String>) {
    let package = pool.load_archive(archive.clone());
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let session = pool.acquire_on(pool.interpreters().len() - 1).unwrap();
    let x: Vec<f32> = (0_u8..12).map(f32::from).collect();
    let x = Tensor::from_vec(x, &[3, 4]).unwrap();
    let y = model.to_object(&session).unwrap().call((&x,)).unwrap().extract::<Tensor>().unwrap();
    let bits = y.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
    let imports = session.import("_hydrozoa.guided_imports").unwrap();
    let reason = imports.call_method("report", ()).unwrap();
    let reason = reason.extract::<Option<String>>().unwrap();
    (bits, session.eval("len(__import__('sys').modules)").unwrap().extract().unwrap(), reason)
}

#[test]
fn a_package_carries_the_profile_of_its_imports() {
    alone(Duration::from_secs(400), || {
        let folder = TempDir::with_prefix("package-imports-").unwrap();
        fs::write(folder.path().join("project.py"), PROJECT).unwrap();
        let file = folder.path().join("model.pt");
        let pool = builder().build().unwrap();
        let report =
            pool.build_package(&recipe(folder.path(), "made", Profile::Recorded), &file).unwrap();
        assert_eq!(report.verdict, Verdict::Same);
        let profile = report.imports.unwrap();
        assert!(profile.needed().any(|name| name == "torchvision.ops"));
        assert!(profile.left_out().count() > 500, "{} left out", profile.left_out().count());
        assert!(!profile.to_string().contains("project"), "a module of the package is in it");

        let archive = Archive::open(&file).unwrap();
        archive.verify().unwrap();
        assert_eq!(report.bytes, fs::metadata(&file).unwrap().len());
        let Imports::Profile(carried) = archive.imports().unwrap() else { panic!("no profile") };
        assert_eq!(carried, profile);

        let eager = builder().build().unwrap();
        let (expected, all, _) = serve(&eager, &archive);
        let guided = builder().interpreters(2).imports(archive.imports().unwrap()).build().unwrap();
        let (found, some, reason) = serve(&guided, &archive);
        assert_eq!((found, reason), (expected.clone(), None));
        assert!(2 * some < all, "{some} modules, and {all} with eager imports");

        // Another release of torch: plain Python's imports.
        let recorded = carried.to_string();
        let release = recorded.lines().find(|line| line.starts_with("= torch ")).unwrap();
        let other = recorded.replace(release, "= torch torch-1.0.dist-info");
        let other = Imports::Profile(other.parse::<ImportProfile>().unwrap());
        let (found, modules, reason) = serve(&builder().imports(other).build().unwrap(), &archive);
        assert_eq!((found, reason.as_deref()), (expected.clone(), Some("torch")));
        assert!(modules >= all, "{modules} modules, and {all} with eager imports");

        // Stock torch.package reads such a package.
        let mut stock = Command::new(venv().join("bin/python"));
        let output = stock.args(["-W", "ignore", "-c", STOCK]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let values: Vec<String> = expected
            .iter()
            .map(|bits| {
                eager
                    .acquire()
                    .unwrap()
                    .eval("float.hex")
                    .unwrap()
                    .call((f32::from_bits(*bits),))
                    .unwrap()
                    .extract()
                    .unwrap()
            })
            .collect();
        let values = values.join("', '");
        assert_eq!(text, format!("['{values}']\nTrue\n"));

        // A profile in a file of its own.
        let given = recipe(folder.path(), "without_arguments", Profile::Given(profile.clone()));
        pool.build_package(&given, &file).unwrap();
        let Imports::Profile(carried) = Archive::open(&file).unwrap().imports().unwrap() else {
            panic!("no profile")
        };
        assert_eq!(carried, profile);

        let nothing_to_call = recipe(folder.path(), "without_arguments", Profile::Recorded);
        let error = pool.build_package(&nothing_to_call, &file).unwrap_err();
        assert!(matches!(error, Error::Configuration(_)), "{error:?}");
        assert!(error.to_string().contains("have project:without_arguments return"), "{error}");
    });
}
