//! `hydrozoa package build` on typical projects: data files, TorchScript, code that depends on the training
//! machine, objects that cannot be pickled.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa::package::build::{Recipe, Verdict};
use hydrozoa::{Error, Pool};
use hydrozoa_tests::place;

const MODEL: &str = r#"
import enum, importlib.resources, json
import torch
from . import data

class Mode(enum.Enum):
    DOUBLE = "double"

class Scripted(torch.nn.Module):
    def forward(self, x):
        return x * 2 if bool(x.sum() > 0) else -x

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(6, 4)
        self.head = torch.nn.Linear(4, 6, bias=False)
        self.head.weight = self.emb.weight
        for name, value in {
            "brain": torch.randn(4).bfloat16(), "complex": torch.randn(4, dtype=torch.cfloat),
            "mask": torch.tensor([True, False, True, True]), "empty": torch.empty(0, 4),
            "scalar": torch.tensor(3.0), "strided": torch.arange(32.0).reshape(4, 8)[:, ::2],
        }.items():
            self.register_buffer(name, value)
        self.sparse = torch.eye(4).to_sparse()
        self.quantized = torch.quantize_per_tensor(torch.randn(4), 0.1, 2, torch.qint8)
        self.scripted = torch.jit.script(Scripted())
        self.traced = torch.jit.trace(torch.nn.Linear(4, 4).eval(), torch.randn(1, 4))
        self.graph = torch.fx.symbolic_trace(torch.nn.Linear(4, 4))
        self.mode = Mode.DOUBLE

    def forward(self, ids):
        assert self.mode is Mode.DOUBLE and self.emb.weight is self.head.weight
        scale = json.loads(importlib.resources.files(data).joinpath("scale.json").read_text())
        x = self.emb(ids) * scale * self.scalar + self.brain.float() + self.complex.abs() + self.mask
        x = x @ self.strided + self.sparse.to_dense()[0] + self.quantized.dequantize()
        return {"y": self.head(self.graph(self.traced(self.scripted(x)))), "rest": (self.complex, self.empty)}

class Stray(torch.nn.Module):
    def forward(self, x):
        return x * len(importlib.resources.files("packaged_project.data").joinpath("scale.json").read_text())
"#;

const TARGETS: &str = r#"
import threading
import torch
from packaged_project.net import Net, Stray

def model():
    return Net().eval().requires_grad_(False), (torch.tensor([[1, 2, 5]]),)
def stray():
    return Stray(), (torch.ones(2),)
def lock():
    net = torch.nn.Sequential(torch.nn.ReLU())
    net[0].settings = {"guard": [1, threading.Lock()]}
    return net
def local():
    return torch.nn.Sequential(torch.nn.ReLU(), type("Local", (torch.nn.Module,), {})())
def parametrized():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    torch.nn.utils.parametrizations.weight_norm(net[0])
    return net
def nothing():
    pass
def no_tuple():
    return torch.nn.ReLU(), torch.ones(2)
"#;

/// A package contains everything that the model needs, or the build says what is missing and where it is.
pub fn projects() -> Result<()> {
    let folder = place::scratch("projects")?;
    let data = folder.path().join("packaged_project/data");
    fs::create_dir_all(&data)?;
    fs::write(data.parent().context("a parent")?.join("__init__.py"), "")?;
    fs::write(data.parent().context("a parent")?.join("net.py"), MODEL)?;
    fs::write(data.join("__init__.py"), "")?;
    fs::write(data.join("scale.json"), "2.5")?;
    fs::write(folder.path().join("project_targets.py"), TARGETS)?;
    let pool = Pool::builder().interpreters(2).venv(place::venv()?).build()?;
    let file = folder.path().join("net.pt");
    let build = |target: &str, with_data: bool| {
        let mut recipe = Recipe::new(format!("project_targets:{target}"));
        recipe.paths.push(folder.path().to_owned());
        recipe.search = std::time::Duration::ZERO;
        if with_data {
            recipe.files.push((data.join("scale.json"), None));
        }
        pool.build_package(&recipe, &file)
    };
    let whole = build("model", true)?;
    ensure!(whole.verdict == Verdict::Same, "{:?}", whole.verdict);
    for (target, words) in [
        ("model", "has no record packaged_project/data/scale.json"),
        ("stray", "packaged_project is imported from "),
    ] {
        match build(target, false)?.verdict {
            Verdict::Fails(text) if text.contains(words) => {}
            other => anyhow::bail!("{target}: {other:?}"),
        }
    }
    for (target, words) in [
        ("lock", "the model.0.settings['guard'][1] cannot be pickled (TypeError: "),
        ("local", "the model.1 cannot be pickled (PicklingError: "),
        ("parametrized", "the model.0 cannot be pickled (RuntimeError: "),
        ("nothing", "returned None"),
        ("no_tuple", "must be a tuple"),
    ] {
        let error = build(target, false).err().context("no error")?;
        ensure!(error.to_string().contains(words), "{target}: {error}");
        ensure!(matches!(error, Error::Python { .. }));
        ensure!(!file.with_extension("partial").exists(), "{target} left a part of a package");
    }
    // The build reports this before it makes the object. The object of the last target would be another error.
    let recipe = Recipe::new("no_such_module:made");
    for (output, words) in [
        (folder.path().join("absent/net.pt"), "absent/net.partial: "),
        (data, "not a regular file"),
    ] {
        let error = pool.build_package(&recipe, &output).err().context("no error")?;
        ensure!(matches!(error, Error::Io { .. }) && error.to_string().contains(words), "{error}");
    }
    Ok(())
}

/// A shell's view of an error in the user's code, a missing file, and a pipe that no process reads.
pub fn shell() -> Result<()> {
    let folder = place::scratch("shell")?;
    fs::write(
        folder.path().join("raising_project.py"),
        "def made():\n    raise ValueError('on purpose')\n",
    )?;
    let mut command = Command::new(place::command()?);
    command.args(["package", "build", "raising_project:made", "-o", "x.pt", "--venv"]);
    let ended = command.arg(place::venv()?).current_dir(folder.path()).output()?;
    let said = String::from_utf8(ended.stderr)?;
    ensure!(ended.status.code() == Some(1) && ended.stdout.is_empty(), "{said}");
    ensure!(said.contains("raising_project.py\", line 2, in made"), "{said}");
    ensure!(said.ends_with("\nhydrozoa: ValueError: on purpose\n"), "{said}");
    ensure!(said.matches("on purpose").count() == 2, "the source line and the message: {said}");

    let ended =
        Command::new(place::command()?).args(["package", "verify", "/absent.pt"]).output()?;
    let said = String::from_utf8(ended.stderr)?;
    ensure!(ended.status.code() == Some(1) && said.matches("os error 2").count() == 1, "{said}");

    // The reading end is closed before anything is written.
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let file = place::models()?.join("mobilenet_v3_small.pt");
    let ended = Command::new(place::command()?)
        .args(["package", "show"])
        .arg(file)
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .spawn()?
        .wait_with_output()?;
    ensure!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    ensure!(ended.status.code() == Some(141), "{:?}", ended.status);
    Ok(())
}
