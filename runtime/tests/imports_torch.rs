//! Further interpreters with torch and torchvision, eager and with a profile of their imports.

mod common;

use common::{exported, floats, venv};
use hydrozoa::memory::Usage;
use hydrozoa::package::Package;
use hydrozoa::{Builder, Imports, Object, Pool, Result, Session, Tensor};
use hydrozoa_testkit::alone::alone;
use std::path::Path;
use std::time::{Duration, Instant};

const MODEL: &str = "mobilenet_v3_small";

const PREPARE: &str = "
import torch, torchvision
torch.set_num_threads(1)
def infer(model, x):
    with torch.inference_mode():
        return model(x)
";

const META: &str = "
import torch
assert torch.cdist(torch.empty(3, 4, device='meta'), torch.empty(5, 4, device='meta')).shape == (3, 5)
";

/// A model in one interpreter.
struct Served<'session> {
    infer: Object<'session>,
    model: Object<'session>,
    x: Tensor,
}

impl<'session> Served<'session> {
    fn load(package: &Package, session: &'session Session) -> Result<Self> {
        let infer = session.run(PREPARE, "prepare.py")?.getattr("infer")?;
        let model = package.load_pickle("model", "model.pkl")?.to_object(session)?;
        let x = floats(&exported().join(format!("{MODEL}.input")));
        Ok(Self { infer, model, x: Tensor::from_vec(x, &[1, 3, 224, 224])? })
    }

    /// The bits of its output.
    fn bits(&self) -> Result<Vec<u32>> {
        let y = self.infer.call((&self.model, &self.x))?.extract::<Tensor>()?;
        Ok(y.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
    }
}

fn package(pool: &Pool) -> Result<Package> {
    pool.load_package(exported().join(format!("{MODEL}.pt")))
}

/// The cost of a further interpreter until its first result, and its memory after it was settled and has gone on.
struct Further {
    mib: f64,
    settled: f64,
    cpu: f64,
    wall: f64,
}

impl std::fmt::Display for Further {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mib, settled, cpu, wall } = self;
        write!(formatter, "{mib:.1} MiB, {settled:.1} settled, {cpu:.2} s of CPU, {wall:.2} s")
    }
}

/// CPU time of the process, in seconds.
fn cpu() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a structure to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Private memory of the process in MiB, when malloc has returned free pages.
fn private() -> f64 {
    // SAFETY: the function takes any padding.
    unsafe { libc::malloc_trim(0) };
    Usage::of_process().unwrap().private as f64 / f64::from(1 << 20)
}

/// How often a settled interpreter is called: `HYDROZOA_TEST_CALLS`.
fn calls() -> usize {
    std::env::var("HYDROZOA_TEST_CALLS").map_or(100, |text| text.parse().unwrap())
}

/// The third and fourth interpreter of a pool, whose outputs must have `expected` bits, and the CPU time of the pool's end.
fn further(builder: &Builder, expected: &[u32]) -> (Vec<Further>, f64) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settle");
    std::fs::create_dir_all(&directory).unwrap();
    let pool = builder.clone().interpreters(2).build().unwrap();
    let package = package(&pool).unwrap();
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        assert_eq!(Served::load(&package, &session).unwrap().bits().unwrap(), expected);
    }
    let further = (3..5)
        .map(|count| {
            let (before, cpu_before, start) = (private(), cpu(), Instant::now());
            pool.resize(count).unwrap();
            let interpreter = &pool.interpreters()[count - 1];
            let session = interpreter.session();
            let served = Served::load(&package, &session).unwrap();
            assert_eq!(served.bits().unwrap(), expected);
            let (cpu, wall) = (cpu() - cpu_before, start.elapsed().as_secs_f64());
            let mib = private() - before;
            let reason = session.import("_hydrozoa.guided_imports");
            let reason = reason.map(|imports| imports.call_method("report", ()).unwrap().is_none());
            assert!(reason.unwrap(), "it has caught up");
            interpreter.settle(&directory).unwrap();
            for _ in 0..calls() {
                assert_eq!(served.bits().unwrap(), expected);
            }
            Further { mib, settled: private() - before, cpu, wall }
        })
        .collect();
    let before = cpu();
    drop((package, pool));
    (further, cpu() - before)
}

#[test]
fn a_further_interpreter_with_a_profile_computes_the_same_bits_in_a_fraction_of_memory_and_time() {
    alone(Duration::from_secs(300), || {
        let builder = Pool::builder().venv(venv()).interpreters(1);
        let profile = builder
            .record_imports(|pool| Served::load(&package(pool)?, &pool.acquire()?)?.bits())
            .unwrap();
        println!(
            "{} modules are needed, {} left out",
            profile.needed().count(),
            profile.left_out().count()
        );
        let expected: Vec<u32> = floats(&exported().join(format!("{MODEL}.output")))
            .into_iter()
            .map(f32::to_bits)
            .collect();
        let (eager, eager_end) = further(&builder, &expected);
        let guided = builder.imports(Imports::Profile(profile));
        let (lazy, lazy_end) = further(&guided, &expected);
        println!("the end of four: eager {eager_end:.2} s of CPU, lazy {lazy_end:.2}");
        assert!(lazy_end < eager_end, "something is imported at the end");
        for (eager, lazy) in eager.iter().zip(&lazy) {
            println!("eager: {eager}\nlazy:  {lazy}");
            // Each interpreter has 66 MiB of libtorch's own objects, eager or not.
            let most = eager.mib - 80.0;
            assert!(lazy.mib < most, "{} MiB, and eager {}", lazy.mib, eager.mib);
            assert!(lazy.cpu < 0.5 * eager.cpu, "{} s of CPU, and eager {}", lazy.cpu, eager.cpu);
        }
        // The promise of docs/specification.md, on average: malloc's free memory is charged to the interpreter that finds it.
        let mean = |of: fn(&Further) -> f64| lazy.iter().map(of).sum::<f64>() / lazy.len() as f64;
        let (first, settled) = (mean(|one| one.mib), mean(|one| one.settled));
        assert!(first <= 115.0 && settled <= 25.0, "{first} MiB, settled {settled}");
        // Not fixed yet: torch's own Python kernels for device `meta` are registered by the catch-up, and an operator that needs one
        // starts none (docs/imports.md).
        let pool = guided.build().unwrap();
        let session = pool.acquire().unwrap();
        let error = session.run(META, "meta.py").unwrap_err().to_string();
        assert!(error.starts_with("NotImplementedError: aten::_cdist_forward"), "{error}");
        session.run("import torch._meta_registrations", "import.py").unwrap();
        session.run(META, "meta.py").unwrap();
    });
}
