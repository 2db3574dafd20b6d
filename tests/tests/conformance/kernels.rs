//! Shared libraries that exist inside a package and nowhere else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use hydrozoa::Pool;
use hydrozoa::package::build::{Action, Recipe, Verdict};
use hydrozoa_tests::place;
use tempfile::TempDir;

/// A model of the C++ extension's operators, classes and static state.
const PROJECT: &str = "
import torch
import areas_extension

class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.addend = 1.5

    def forward(self, x):
        areas_extension.count()
        return torch.ops.hydrozoa_extension.twice_plus(x, self.addend)

    def counted(self):
        return areas_extension.count()

    def refused(self):
        try:
            areas_extension.refuse('no')
        except areas_extension.Refusal as refusal:
            return f'{type(refusal).__module__} {refusal}'

def packaged():
    return Twice(), (torch.arange(6, dtype=torch.float32),)

def mask_rcnn():
    import torchvision
    torch.manual_seed(5)
    make = torchvision.models.detection.maskrcnn_resnet50_fpn
    model = make(weights=None, weights_backbone=None, min_size=96, max_size=128, box_score_thresh=0.0).eval()
    return model, ([torch.rand(3, 96, 128)],)
";

/// Calls a packaged detector and describes all of its outputs to the bit.
const DETECT: &str = "
import torch, hashlib, sys
def detect(model, example):
    torch.manual_seed(0)
    with torch.no_grad():
        (found,) = model(*example)
    bits = hashlib.sha256()
    for name in sorted(found):
        bits.update(found[name].contiguous().numpy().tobytes())
    # libpng stands beside the library, in torchvision.libs.
    module = sys.modules[type(model).__module__.partition('torchvision')[0] + 'torchvision.io.image']
    picture = torch.arange(192, dtype=torch.uint8).reshape(3, 8, 8)
    bits.update(module.encode_png(picture).numpy().tobytes())
    return len(found['boxes']), bits.hexdigest()
";

/// A virtual environment with the packages of the tests' one, without those in `names`.
fn without(names: &[&str], folder: &Path) -> Result<PathBuf> {
    let venv = place::venv()?;
    let bare = folder.join("venv");
    let lib = fs::read_dir(venv.join("lib"))?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .find(|name| name.to_string_lossy().starts_with("python3."))
        .context("a virtual environment has lib/python3.N")?;
    let packages = Path::new("lib").join(lib).join("site-packages");
    fs::create_dir_all(bare.join(&packages))?;
    fs::create_dir_all(bare.join("bin"))?;
    fs::copy(venv.join("pyvenv.cfg"), bare.join("pyvenv.cfg"))?;
    symlink(fs::canonicalize(venv.join("bin/python"))?, bare.join("bin/python"))?;
    for entry in fs::read_dir(venv.join(&packages))? {
        let entry = entry?;
        let name = entry.file_name();
        if !names.iter().any(|gone| name.to_string_lossy().starts_with(gone)) {
            symlink(entry.path(), bare.join(&packages).join(&name))?;
        }
    }
    Ok(bare)
}

fn pool(venv: &Path) -> Result<Pool> {
    let pool = Pool::builder().interpreters(2).venv(venv).build()?;
    for interpreter in pool.interpreters() {
        interpreter.session().run("import torch\ntorch.set_num_threads(1)", "prepare.py")?;
    }
    Ok(pool)
}

/// A folder with the project in it, and the place of the extension that the build uses. That is a copy, so
/// that the test can remove it.
fn project(name: &str) -> Result<(TempDir, PathBuf)> {
    let folder = place::scratch(name)?;
    fs::write(folder.path().join("kernel_project.py"), PROJECT)?;
    let built = std::env::var_os("HYDROZOA_TEST_EXTENSION")
        .map(PathBuf::from)
        .context("HYDROZOA_TEST_EXTENSION is not set")?;
    let extension = folder.path().join("areas_extension.so");
    fs::copy(built, &extension)?;
    Ok((folder, extension))
}

/// How many mappings of a package's file are executable: one for each library in each interpreter.
fn code_mappings(maps: &str, file: &Path) -> Result<usize> {
    let file = file.canonicalize()?;
    let path = file.to_str().context("UTF-8")?;
    Ok(maps.lines().filter(|line| line.contains(" r-xp ") && line.ends_with(path)).count())
}

fn mapped_paths() -> Result<String> {
    fs::read_to_string("/proc/self/maps").context("reading /proc/self/maps")
}

/// Builds the package in a child process, so that this one never sees the library on disk.
fn build(folder: &Path, recipe: &Recipe, output: &Path) -> Result<()> {
    let mut command = std::process::Command::new(place::command()?);
    command.args(["package", "build", "--search", "0", "--venv"]).arg(place::venv()?);
    for (action, pattern) in &recipe.rules {
        command.arg(format!("--{}", action.name())).arg(pattern);
    }
    for (extension, _) in &recipe.extensions {
        command.arg("--with-extension").arg(extension);
    }
    let ended = command.arg("-o").arg(output).arg(&recipe.target).current_dir(folder).output()?;
    ensure!(
        ended.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(())
}

pub fn extension() -> Result<()> {
    let (folder, library) = project("kernels-extension")?;
    let mut recipe = Recipe::new("kernel_project:packaged");
    recipe.extensions.push((library.clone(), None));
    let file = folder.path().join("twice.pt");
    build(folder.path(), &recipe, &file)?;
    fs::remove_file(&library)?;

    let pool = pool(&place::venv()?)?;
    let package = pool.load_package(&file)?;
    ensure!(package.archive().libraries().eq(["areas_extension.so"]));
    let model = package.load_pickle("model", "model.pkl")?;
    // Each interpreter has its own static state.
    thread::scope(|scope| {
        let running: Vec<_> = pool
            .interpreters()
            .into_iter()
            .map(|interpreter| {
                let (model, package) = (&model, &package);
                scope.spawn(move || -> Result<()> {
                    let session = interpreter.session();
                    let model = model.to_object(&session)?;
                    for round in 0..100 {
                        let x = hydrozoa::Tensor::from_vec(vec![1.0_f32, 2.0], &[2])?;
                        let y: hydrozoa::Tensor = model.call((&x,))?.extract()?;
                        ensure!(y.to_vec::<f32>()? == [3.5, 5.5]);
                        let count: i64 = model.call_method("counted", ())?.extract()?;
                        ensure!(
                            count == 2 * round + 2,
                            "the counter of {} is shared: {count}",
                            interpreter.name()
                        );
                    }
                    let refused: String = model.call_method("refused", ())?.extract()?;
                    let module =
                        format!("<torch_package_{}>.areas_extension no", package.identity());
                    ensure!(refused == module, "{refused}");
                    ensure!(
                        session.import("areas_extension").is_err(),
                        "it is importable outside of the package"
                    );
                    Ok(())
                })
            })
            .collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("the thread ends"))
    })?;
    let maps = mapped_paths()?;
    ensure!(!maps.contains(library.to_str().context("UTF-8")?), "mapped from disk");
    ensure!(
        code_mappings(&maps, &file)? == pool.interpreters().len(),
        "not mapped from the package"
    );
    Ok(())
}

/// Mask R-CNN with nms and roi_align, on a machine that has no torchvision.
pub fn mask_rcnn() -> Result<()> {
    let (folder, _) = project("kernels-rcnn")?;
    let mut recipe = Recipe::new("kernel_project:mask_rcnn");
    recipe.rules.push((Action::Intern, "torchvision.**".to_owned()));
    recipe.extensions.push((torchvision_library("_C.so")?, None));
    recipe.extensions.push((torchvision_library("image.so")?, None));
    let file = folder.path().join("rcnn.pt");
    build(folder.path(), &recipe, &file)?;

    // Plain python's result with the torchvision on its disk.
    let program = format!(
        "{DETECT}\nimport kernel_project\ntorch.set_num_threads(1)\nprint(*detect(*kernel_project.mask_rcnn()))"
    );
    let plain = std::process::Command::new(place::venv()?.join("bin/python"))
        .args(["-c", &program])
        .env("PYTHONPATH", folder.path())
        .output()?;
    ensure!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
    let expected = String::from_utf8(plain.stdout)?;

    let pool = pool(&without(&["torchvision"], folder.path())?)?;
    let package = pool.load_package(&file)?;
    let model = package.load_pickle("model", "model.pkl")?;
    let example = package.load_pickle("model", "example.pkl")?;
    thread::scope(|scope| {
        let running: Vec<_> = pool
            .interpreters()
            .into_iter()
            .map(|interpreter| {
                let (model, example, expected) = (&model, &example, &expected);
                scope.spawn(move || -> Result<()> {
                    let session = interpreter.session();
                    ensure!(session.import("torchvision").is_err(), "this machine has torchvision");
                    let detect = session.run(DETECT, "detect.py")?.getattr("detect")?;
                    let arguments = (model.to_object(&session)?, example.to_object(&session)?);
                    let (boxes, bits): (i64, String) = detect.call(arguments)?.extract()?;
                    ensure!(boxes > 0, "nothing was detected: nms had nothing to do");
                    ensure!(
                        format!("{boxes} {bits}\n") == *expected,
                        "{boxes} {bits} and {expected}"
                    );
                    Ok(())
                })
            })
            .collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("the thread ends"))
    })?;
    let maps = mapped_paths()?;
    ensure!(!maps.contains("torchvision/_C.so"), "mapped from disk");
    // `_C.so`, `image.so` and at least libpng, for each interpreter.
    let least = 3 * pool.interpreters().len();
    let found = code_mappings(&maps, &file)?;
    ensure!(found >= least, "{found} libraries are the package's, not {least}");
    ensure!(!maps.contains("torchvision.libs"), "mapped from disk");
    Ok(())
}

fn torchvision_library(name: &str) -> Result<PathBuf> {
    let output = std::process::Command::new(place::venv()?.join("bin/python"))
        .args(["-c", "import importlib.util as u; print(u.find_spec('torchvision').submodule_search_locations[0])"])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(Path::new(String::from_utf8(output.stdout)?.trim()).join(name))
}

/// A report of the library is the one that the command prints.
pub fn report() -> Result<()> {
    let folder = place::scratch("build-report")?;
    fs::write(folder.path().join("unused_plots.py"), "import fractions\nclass Plot: pass\n")?;
    fs::write(
        folder.path().join("reported_project.py"),
        "import torch\nimport unused_plots\n\
         try:\n    import module_that_nobody_has\nexcept ImportError:\n    pass\n\
         class Net(torch.nn.Module):\n    def forward(self, x): return x * 2\n\
         def packaged(): return Net(), (torch.ones(3),)\n\
         def plots(): return unused_plots.Plot()\n\
         def raising():\n    net = Net()\n    net.forget = True\n    return net, (torch.ones(3), 'too many')\n\
         value = 3\n",
    )?;
    let pool = pool(&place::venv()?)?;
    let recipe = |target: &str| {
        let mut recipe = Recipe::new(target);
        recipe.paths.push(folder.path().to_owned());
        recipe
    };
    let file = folder.path().join("net.pt");
    let report = pool.build_package(&recipe("reported_project:packaged"), &file)?;
    ensure!(report.verdict == Verdict::Same && report.complete, "{:?}", report.verdict);
    ensure!(report.proposed_mocks() == ["unused_plots"], "{:?}", report.proposed_mocks());
    // The module of the package that imports an external one, and the cost of that one.
    let cost = report.costs.iter().find(|cost| cost.module == "fractions").context("no cost")?;
    ensure!((cost.by.as_str(), cost.line) == ("unused_plots", 1), "{cost}");
    ensure!((1 << 12..1 << 24).contains(&cost.bytes) && cost.modules >= 1, "{cost}");
    let tree = report.tree();
    ensure!(!tree.contains("module_that_nobody_has"), "{tree}");
    ensure!(tree.contains("intern  unused_plots") && tree.contains("FALSE"), "{tree}");
    ensure!(report.html().contains("reported_project"));
    // The proposal holds: the package is smaller and computes the same.
    let mut mocked = recipe("reported_project:packaged");
    mocked.rules.push((Action::Mock, "unused_plots".to_owned()));
    let again = pool.build_package(&mocked, folder.path().join("mocked.pt"))?;
    ensure!(again.verdict == Verdict::Same && again.proposed_mocks().is_empty());
    // If the call raises, the build reports that and writes nothing.
    let raised =
        pool.build_package(&recipe("reported_project:raising"), folder.path().join("raising.pt"));
    ensure!(raised.is_err_and(|error| error.to_string().contains("forward()")));
    for (target, words) in [
        ("reported_project", "MODULE:CALLABLE"),
        ("reported_project:absent", "has no absent"),
        ("reported_project:value", "not a callable"),
        ("no_such_project:packaged", "no_such_project"),
    ] {
        let error = pool.build_package(&recipe(target), &file).err().context("no error")?;
        ensure!(error.to_string().contains(words), "{target}: {error}");
    }
    // Each problem, with how it came about and how to fix it.
    for (action, target, words) in [
        (
            Action::Deny,
            "reported_project:packaged",
            "reported_project -> unused_plots: a --deny rule",
        ),
        (Action::Mock, "reported_project:plots", "--intern 'unused_plots' before that rule"),
    ] {
        let mut denied = recipe(target);
        denied.rules.push((action, "unused_plots".to_owned()));
        let partial = folder.path().join("denied.pt");
        let error = pool.build_package(&denied, &partial).err().context("no error")?;
        ensure!(error.to_string().contains(words), "{error}");
        ensure!(!partial.exists() && !partial.with_extension("partial").exists());
    }
    Ok(())
}

/// `hydrozoa package show`, `extract` and `verify`.
pub fn command() -> Result<()> {
    let folder = place::scratch("package-command")?;
    let file = place::models()?.join("mobilenet_v3_small.pt");
    let run = |arguments: &[&str], file: &Path| -> Result<(bool, String)> {
        let mut command = std::process::Command::new(place::command()?);
        let (task, rest) = arguments.split_first().context("a task")?;
        let ended = command
            .args(["package", task])
            .arg(file)
            .args(rest)
            .current_dir(folder.path())
            .output()?;
        let text =
            [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((ended.status.success(), text.concat()))
    };
    let (good, shown) = run(&["show"], &file)?;
    ensure!(
        good && shown.contains("model/model.pkl") && shown.contains("external modules: "),
        "{shown}"
    );
    let (good, verified) = run(&["verify"], &file)?;
    ensure!(good && verified.contains("as they were written"), "{verified}");
    let (good, said) = run(&["extract", "model/*", "-C", "out"], &file)?;
    ensure!(good && folder.path().join("out/model/model.pkl").is_file(), "{said}");
    ensure!(!folder.path().join("out/.data").exists(), "more than what was asked for");
    let (good, said) = run(&["show", "no/such/*"], &file)?;
    ensure!(!good && said.contains("no record matches no/such/*"), "{said}");
    // One bit of a storage changes. Opening the package does not read that storage.
    let mut bytes = fs::read(&file)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = folder.path().join("damaged.pt");
    fs::write(&damaged, bytes)?;
    let (good, said) = run(&["verify"], &damaged)?;
    ensure!(!good && said.contains("is damaged: its CRC-32"), "{said}");
    Ok(())
}
